"""The tenant of an event: the kernel's cgroup ids into the one that joins ``containers``."""

from typing import Any

import numpy as np
import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.owner import OWNER, owners
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.identity.ledger import Ledger
from cotenant.schema.wire import Field


class TenantColumn:
    """Translates the ids that an event carries, once per distinct owner."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def needs(self, field: Field) -> Needs:
        """The owner's ids; those of another task are two fields of their own."""
        other = _other(field)
        return [], [(field.name, other) if other else OWNER]

    def make(self, batch: Batch, field: Field) -> Any:
        """The stored id; NULL only where there is no other task."""
        other = _other(field)
        if not other:
            codes, distinct = batch.key(*OWNER)
            return batch.each(owners(self._ledger, distinct)[codes])
        codes, distinct = batch.key(field.name, other)
        ids = self._ledger.translate(distinct[field.name], distinct[other])
        return pa.array(np.asarray(batch.each(ids[codes])), mask=batch.unknown(field))


def _other(field: Field) -> str:
    """The field with the same task's id in version 1, where it is not the event's owner."""
    return (field.maker or "").partition(":")[2]
