"""How many entries of each map tenants have to divide, whichever way its object is loaded."""

import numpy as np

from cotenant.probes import syscalls
from cotenant.probes.attach import Method
from cotenant.probes.programs import Programs, Sizes, load_object
from cotenant.schema.constants import MAPS
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import ROOM


def test_rooms_are_told_of_maps_that_come_with_a_later_object() -> None:
    loaded = Programs(Method.PAIR)
    try:
        # As where a kernel refuses one program of an object, and the others are loaded again.
        for stem in ("task", "cuda", "io", "tcp", "host"):
            load_object(loaded, stem, {}, Sizes(events_bytes=4096, facts_bytes=4096), {})
        quotas = {number: name for number, name in ENUMS["quota"].items() if name in loaded.maps}
        assert {"totals", "bios", "requests", "dirtied", "contention"} <= set(quotas.values())
        for number, name in quotas.items():
            key = number.to_bytes(MAPS["rooms"][0], "little")
            told = syscalls.map_lookup(loaded.maps["rooms"], "rooms", key)
            assert told is not None
            (most, used) = np.frombuffer(told, ROOM)[0]
            assert (most, used) == (syscalls.map_entries(loaded.maps[name]), 0), name
    finally:
        loaded.close()
