"""Drained records as columns: what makers turn into a table's rows.

The native drain hands over two sorts of columns. *Plain* ones hold a field's values. *Keys* hold
a small number per row that stands for a tuple of fields, and the distinct tuples: a maker that
looks something up does it once per distinct tuple, and spreads the answers over the rows.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant._native import Ring
from cotenant.schema.wire import Field, Record

KNOWN: Final = "known"

Codes = npt.NDArray[np.int32]


def _part(field: Field) -> tuple[int, int]:
    return field.offset, np.dtype(field.type).itemsize


class Batch:
    """The rows of one kind that were drained together."""

    def __init__(
        self,
        rows: int,
        plain: dict[str, npt.NDArray[Any]],
        keys: dict[tuple[str, ...], tuple[Codes, npt.NDArray[np.void]]],
    ) -> None:
        self.rows = rows
        self._plain = plain
        self._keys = keys

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A field's values."""
        return self._plain[name]

    def key(self, *names: str) -> tuple[Codes, npt.NDArray[np.void]]:
        """Each row's number, and the distinct tuples of these fields by number."""
        return self._keys[names]

    def unknown(self, field: Field) -> npt.NDArray[np.bool_] | None:
        """Where the field's value is not known; None where it always is."""
        if field.known is None:
            return None
        return (self._plain[KNOWN] >> field.known) & 1 == 0

    def spread(self, codes: Codes, words: Iterable[str | None]) -> Any:
        """Text per row, from text per distinct tuple."""
        texts = list(words)
        if None not in texts:
            return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts, pa.string()))
        missing = np.array([text is None for text in texts])
        filled = pa.array([text or "" for text in texts], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing[codes]), filled)


class Plan:
    """Which parts of a record are needed, and in which form."""

    def __init__(
        self, record: Record, plain: Iterable[str], keys: Iterable[tuple[str, ...]]
    ) -> None:
        fields = {field.name: field for field in record.fields if field.type != "S0"}
        self._plain = [fields[name] for name in dict.fromkeys(plain)]
        self._keys = [(names, [fields[n] for n in names]) for names in dict.fromkeys(keys)]

    def expect(self, ring: Ring, kind: int) -> None:
        """Tell the drain."""
        ring.expect(
            kind,
            [_part(field) for field in self._plain],
            [[_part(field) for field in fields] for _, fields in self._keys],
        )

    def read(self, taken: tuple[int, list[bytes], list[tuple[bytes, bytes]]]) -> Batch:
        """What the drain took, as arrays."""
        rows, plain, keys = taken
        columns = {
            field.name: np.frombuffer(data, field.type)
            for field, data in zip(self._plain, plain, strict=True)
        }
        numbered = {}
        for (names, fields), (codes, values) in zip(self._keys, keys, strict=True):
            numbered[names] = (
                np.frombuffer(codes, np.int32),
                np.frombuffer(values, _tuple(fields)),
            )
        return Batch(rows, columns, numbered)


def _tuple(fields: list[Field]) -> np.dtype[np.void]:
    """A distinct tuple as the drain lays it out: parts end to end, padded to whole words."""
    offsets, at = [], 0
    for field in fields:
        offsets.append(at)
        at += np.dtype(field.type).itemsize
    return np.dtype(
        {
            "names": [field.name for field in fields],
            "formats": [field.type for field in fields],
            "offsets": offsets,
            "itemsize": at + 7 & ~7,
        }
    )
