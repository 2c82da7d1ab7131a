"""The tenant of an event: the kernel's cgroup ids into the one that joins ``containers``."""

from typing import Any

import pyarrow as pa

from cotenant.agent.batch import Batch
from cotenant.agent.columns.plain import Needs
from cotenant.identity.ledger import Ledger
from cotenant.schema.wire import Field


class Tenant:
    """Translates both ids that an event carries, once per distinct pair."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def needs(self, field: Field) -> Needs:
        """The id in version 2 and in one version 1 hierarchy."""
        return [], [(field.name, "cgroup_v1_id")]

    def make(self, batch: Batch, field: Field) -> Any:
        """The stored id; never NULL."""
        codes, distinct = batch.key(field.name, "cgroup_v1_id")
        ids = self._ledger.translate(distinct[field.name], distinct["cgroup_v1_id"])
        return pa.array(ids[codes])
