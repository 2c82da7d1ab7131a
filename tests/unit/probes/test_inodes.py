"""Files among mappings, each once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.probes.inodes import Inode, inodes_of
from cotenant.schema.layouts import MAPPING

FEW = st.integers(0, 2)


@settings(deadline=None)  # The machine may be busy.
@given(st.lists(st.tuples(FEW, FEW, FEW), max_size=40))
def test_each_file_is_told_once_with_a_place_where_it_is_mapped(
    files: list[tuple[int, int, int]],
) -> None:
    mappings = np.zeros(len(files), MAPPING)
    for index, name in enumerate(("device", "inode", "generation")):
        mappings[name] = [file[index] for file in files]
    mappings["start"] = np.arange(len(files))
    found = list(inodes_of(mappings))
    assert sorted((i.device, i.number, i.generation) for i, _ in found) == sorted(set(files))
    assert all(Inode(*files[mapping["start"]]) == inode for inode, mapping in found)
