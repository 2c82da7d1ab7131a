"""Drained records as columns, which makers turn into the rows of a table.

A few fields of a record differ from event to event: times, durations, sizes. All others together
are its *signature*: this thread of this tenant, launching this kernel in this shape. There are few
signatures. The native drain interns them with one lookup per record, and a maker does its work once
per signature.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cotenant._native import Ring
from cotenant.schema.wire import Field, Record
from cotenant.store.nulls import nulls

KNOWN: Final = "known"

Codes = npt.NDArray[np.int32]
Signatures = npt.NDArray[np.void]

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

# Fields that differ between events of one signature, besides those whose names end in _ns.
_VARYING: Final = frozenset({"bytes", "sector", "address", "group_id", "weight"})


def _varies(field: Field) -> bool:
    return field.name in _VARYING or field.name.endswith("_ns")


class Batch:
    """The rows of one kind that were drained together."""

    def __init__(
        self,
        rows: int,
        varying: dict[str, npt.NDArray[Any]],
        codes: Codes,
        signatures: Signatures,
    ) -> None:
        self.rows = rows
        self._varying = varying
        self._codes = pa.array(codes)
        self._signatures = signatures
        self._counts: npt.NDArray[np.int64] | None = None
        self._keys: dict[tuple[str, ...], tuple[Codes, Signatures]] = {}
        self._valid: dict[int, Any] = {}  # By bit of ``known``.

    @property
    def codes(self) -> Codes:
        """The number of each row's signature."""
        return np.asarray(self._codes)

    @property
    def signatures(self) -> int:
        """How many signatures the rows have."""
        return len(self._signatures)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows each signature has."""
        if self._counts is None:
            self._counts = np.bincount(self.codes, minlength=self.signatures)
        return self._counts

    def varying(self, name: str) -> npt.NDArray[Any] | None:
        """A field that differs within a signature, 0 where unknown; None for any other field."""
        return self._varying.get(name)

    def field(self, name: str) -> npt.NDArray[Any]:
        """The value of a field for each signature."""
        return np.ascontiguousarray(self._signatures[name])

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A field's values."""
        if name in self._varying:
            return self._varying[name]
        return np.asarray(self.each(np.ascontiguousarray(self._signatures[name])))

    def each(self, values: Any) -> Any:
        """A value per row, from a value per signature; the drain's codes are within bounds."""
        return pc.take(pa.array(values), self._codes, boundscheck=False)

    def numbers(self, field: Field) -> Any:
        """A field's values as Arrow numbers, NULL where unknown."""
        # SQL engines know signed numbers best; the kernel's unsigned ones fit.
        unknown = self._unknown_signatures(field)
        varying = self._varying.get(field.name)
        if varying is not None:
            values = _signed(varying)
        else:
            values = _signed(np.ascontiguousarray(self._signatures[field.name]))
        if unknown is not None and unknown.all():
            return nulls(self.rows, pa.from_numpy_dtype(values.dtype))
        if varying is not None:
            return pa.array(values, mask=self.unknown(field))
        if unknown is None or not unknown.any():
            return self.each(values)
        # Taking from an array with NULLs costs ten times as much as taking both parts.
        taken = self.each(values)
        return pa.Array.from_buffers(
            taken.type, self.rows, [self._validity(field), taken.buffers()[1]]
        )

    def _validity(self, field: Field) -> Any:
        """Bits that say where a field is known; many columns share theirs."""
        assert field.known is not None
        if field.known not in self._valid:
            unknown = self._unknown_signatures(field)
            assert unknown is not None
            self._valid[field.known] = self.each(~unknown).buffers()[1]
        return self._valid[field.known]

    def words(self, field: Field, texts: list[str | None]) -> Any:
        """Text for each value of a field, NULL where unknown or where there is none."""
        last = len(texts)
        codes = np.minimum(self._signatures[field.name], last).astype(np.int32)
        missing = np.array([text is None for text in texts] + [True])[codes]
        unknown = self._unknown_signatures(field)
        if unknown is not None:
            missing |= unknown
        filled = pa.array([text or "" for text in texts], pa.string())
        if missing.all():
            return no_text(self.rows)
        indices = self.each(pa.array(codes, mask=missing if missing.any() else None))
        return pa.DictionaryArray.from_arrays(indices, filled, safe=False)

    def key(self, *names: str) -> tuple[Codes, Signatures]:
        """Each signature's number, and the distinct tuples of these fields by number."""
        if names not in self._keys:
            tuples = np.empty(
                len(self._signatures), [(n, self._signatures.dtype[n]) for n in names]
            )
            for name in names:
                tuples[name] = self._signatures[name]
            width = pa.binary(tuples.dtype.itemsize)
            wires = pa.Array.from_buffers(width, len(tuples), [None, pa.py_buffer(tuples)])
            found = wires.dictionary_encode()
            distinct = np.frombuffer(
                found.dictionary.buffers()[1], tuples.dtype, count=len(found.dictionary)
            )
            self._keys[names] = (found.indices.to_numpy(), distinct)
        return self._keys[names]

    def tally(self, *names: str) -> tuple[Signatures, list[int]]:
        """The distinct tuples of these fields, and how many rows each has."""
        codes, distinct = self.key(*names)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, codes, self.counts)
        return distinct, counts.tolist()

    def unknown(self, field: Field) -> npt.NDArray[np.bool_] | None:
        """Where the field's value is not known; None where it always is."""
        unknown = self._unknown_signatures(field)
        if unknown is None or not unknown.any():
            return None
        return np.asarray(self.each(unknown))

    def _unknown_signatures(self, field: Field) -> npt.NDArray[np.bool_] | None:
        if field.known is None:
            return None
        unknown: npt.NDArray[np.bool_] = (self._signatures[KNOWN] >> field.known) & 1 == 0
        return unknown

    def spread(self, codes: Codes, words: Iterable[str | None]) -> Any:
        """Text per row, from each signature's tuple and text per tuple."""
        places, texts = _numbered(words)
        if not texts:
            return no_text(self.rows)
        indices = self.each(pc.take(places, pa.array(codes), boundscheck=False))
        return pa.DictionaryArray.from_arrays(indices, texts, safe=False)

    def spread_rows(self, codes: Codes, words: Iterable[str | None]) -> Any:
        """Text per row, from each row's tuple and text per tuple."""
        places, texts = _numbered(words)
        indices = pc.take(places, pa.array(codes), boundscheck=False)
        return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


def no_text(rows: int) -> Any:
    """Text that is NULL in every row."""
    return nulls(rows, _TEXT)


def _numbered(words: Iterable[str | None]) -> tuple[Any, Any]:
    """Where each word is among the distinct ones, NULL for none; and those."""
    numbers: dict[str, int] = {}
    places = [None if w is None else numbers.setdefault(w, len(numbers)) for w in words]
    return pa.array(places, pa.int32()), pa.array(list(numbers), pa.string())


def _signed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(np.int32) if values.itemsize < 4 else values.view(f"<i{values.itemsize}")


class DrainPlan:
    """Which fields of a record are needed, and how the drain is to hand them over."""

    def __init__(
        self, record: Record, plain: Iterable[str], keys: Iterable[tuple[str, ...]]
    ) -> None:
        fields = {field.name: field for field in record.fields if field.type != "S0"}
        numbered = {name for names in keys for name in names}
        needed = [fields[name] for name in {**dict.fromkeys(plain), **dict.fromkeys(numbered)}]
        self._varying = [f for f in needed if _varies(f) and f.name not in numbered]
        kept = {f.name for f in self._varying}
        interned = sorted((f for f in needed if f.name not in kept), key=lambda f: f.offset)
        self._parts = _merged(interned)
        self._signature = _layout(interned, self._parts)

    def expect(self, ring: Ring, kind: int) -> None:
        """Tell the drain."""
        varying = [(f.offset, np.dtype(f.type).itemsize) for f in self._varying]
        ring.expect(kind, varying, [self._parts])

    def read(self, taken: tuple[int, list[bytes], list[tuple[bytes, bytes]]]) -> Batch:
        """What the drain took, as arrays."""
        rows, plain, ((codes, signatures),) = taken
        varying = {
            field.name: np.frombuffer(data, field.type)
            for field, data in zip(self._varying, plain, strict=True)
        }
        return Batch(
            rows,
            varying,
            np.frombuffer(codes, np.int32),
            np.frombuffer(signatures, self._signature),
        )


def _merged(fields: list[Field]) -> list[tuple[int, int]]:
    """Offset and width of the parts to copy: neighbours are copied together."""
    parts: list[tuple[int, int]] = []
    for field in fields:
        width = np.dtype(field.type).itemsize
        if parts and sum(parts[-1]) == field.offset:
            parts[-1] = (parts[-1][0], parts[-1][1] + width)
        else:
            parts.append((field.offset, width))
    return parts


def _layout(fields: list[Field], parts: list[tuple[int, int]]) -> np.dtype[np.void]:
    """A signature as the drain lays it out: parts end to end, padded to whole words."""
    at = 0
    places: dict[str, int] = {}
    for offset, width in parts:
        places |= {
            f.name: at + f.offset - offset for f in fields if offset <= f.offset < offset + width
        }
        at += width
    layout: Any = {
        "names": [field.name for field in fields],
        "formats": [field.type for field in fields],
        "offsets": [places[field.name] for field in fields],
        "itemsize": at + 7 & ~7,
    }
    dtype: np.dtype[np.void] = np.dtype(layout)
    return dtype
