"""Offsets in ring records of what is looked at before they are decoded."""

from typing import Final

from cotenant.schema.events import RECORDS
from cotenant.schema.layouts import FACT

# Events share their head, so there is one place in all of them.
(_place,) = {f.offset for record in RECORDS.values() for f in record.fields if f.name == "kind"}
EVENT_KIND: Final[int] = _place

assert FACT.fields is not None
FACT_KIND: Final[int] = FACT.fields["kind"][1]

_type, _at = FACT.fields["timestamp_ns"][:2]
FACT_TIME: Final = slice(_at, _at + _type.itemsize)

# Both of them, side by side.
_first, _last = FACT.fields["cgroup_id"], FACT.fields["cgroup_v1_id"]
FACT_CGROUPS: Final = slice(_first[1], _last[1] + _last[0].itemsize)
assert FACT_CGROUPS.stop - FACT_CGROUPS.start == 16
