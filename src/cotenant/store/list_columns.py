"""Columns of lists of numbers as one column for each place in them, and the reverse."""

from typing import Any

import numpy as np
import pyarrow as pa


def spread(rows: Any, name: str) -> tuple[Any, list[str]]:
    """The rows with a column for each place in the lists of one, 0 where a list is shorter."""
    lists = rows.column(name).combine_chunks()
    offsets = lists.offsets.to_numpy()
    lengths = np.diff(offsets)
    values = np.zeros((len(lists), int(lengths.max(initial=0))), np.int64)
    place = np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], lengths)
    values[np.repeat(np.arange(len(lists)), lengths), place] = lists.flatten().to_numpy()
    rows = rows.drop_columns([name])
    names = [f"{name}_{number}" for number in range(values.shape[1])]
    for number, each in enumerate(names):
        rows = rows.append_column(each, pa.array(values[:, number]))
    return rows, names


def gathered(rows: Any, name: str, places: list[str]) -> Any:
    """The rows with these columns as one of lists."""
    width = len(places)
    values = np.zeros((rows.num_rows, width), np.int64)
    for number, place in enumerate(places):
        values[:, number] = rows.column(place).to_numpy()
    ends = np.arange(rows.num_rows + 1, dtype=np.int32) * width
    lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(values.ravel()))
    return rows.drop_columns(places).append_column(name, lists)
