"""Makers that need nothing but the value itself."""

from typing import Any

import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import Batch, no_text
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.printable import printable
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field
from cotenant.store.nulls import nulls

Needs = tuple[list[str], list[tuple[str, ...]]]


class CopyColumn:
    """The value as it is; text by its distinct values."""

    def needs(self, field: Field) -> Needs:
        """The field itself."""
        if field.type.startswith("S"):
            return [], [(field.name,)]
        return [field.name], []

    def make(self, batch: Batch, field: Field) -> Any:
        """Numbers with NULL where unknown, or text."""
        if field.type.startswith("S"):
            codes, distinct = batch.key(field.name)
            return batch.spread(codes, [_text(value) for value in distinct[field.name]])
        return batch.numbers(field)


class EnumColumn:
    """A number of an enumeration, as the text of its declaration."""

    def needs(self, field: Field) -> Needs:
        """The field itself."""
        return [field.name], []

    def make(self, batch: Batch, field: Field) -> Any:
        """Text, NULL where unknown or undeclared."""
        texts = ENUMS[(field.maker or "").partition(":")[2]]
        return batch.words(field, [texts.get(number) for number in range(max(texts) + 1)])


class NullColumn:
    """A column that nobody fills in yet for the batch at hand."""

    def needs(self, field: Field) -> Needs:
        """Nothing."""
        return [], []

    def make(self, batch: Batch, field: Field) -> Any:
        """All NULL, of the declared type."""
        kind = (field.maker or "").partition(":")[2] or "string"
        return no_text(batch.rows) if kind == "string" else nulls(batch.rows, getattr(pa, kind)())


class TimeColumn:
    """The kernel's clock into UTC."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock

    def needs(self, field: Field) -> Needs:
        """The field itself."""
        return [field.name], []

    def make(self, batch: Batch, field: Field) -> Any:
        """Nanoseconds since 1970."""
        return pa.array(self._clock.utc(batch.plain(field.name)))


def _text(value: bytes) -> str:
    """A name that a tenant chose, as text that harms no terminal."""
    return printable(value.split(b"\0", 1)[0].decode("utf-8", "replace"))
