"""Two machines of one name: the second is refused, unless it takes over."""

import json

import pytest

from cotenant.errors import StoreError
from cotenant.store.manifest import Machine, manifest_path, read_manifest
from tests.unit.store.conftest import NODE

NOW = 1_800_000_000_000_000_000


def machine_of(root):
    return read_manifest(manifest_path(root, NODE)).machine


def fill(open_writer, cuda_rows, **more):
    writer = open_writer(**more)
    writer.append("cuda_events", cuda_rows(7))
    writer.seal(NOW)
    writer.close()


def test_a_node_of_another_machine_is_refused_and_left_as_it_was(open_writer, root, cuda_rows):
    fill(open_writer, cuda_rows, machine=Machine("one"))
    before = manifest_path(root, NODE).read_bytes()
    with pytest.raises(StoreError, match=f"has a node {NODE} that was recorded on another mach"):
        open_writer(machine=Machine("two"))
    assert manifest_path(root, NODE).read_bytes() == before
    fill(open_writer, cuda_rows, machine=Machine("one"))  # Its own goes on.


def test_a_node_is_taken_over_with_its_segments(open_writer, root, cuda_rows, stored):
    fill(open_writer, cuda_rows, machine=Machine("one"))
    fill(open_writer, cuda_rows, machine=Machine("two", takes_over=True))
    assert machine_of(root) == "two"
    assert len(stored("cuda_events")) == 14
    with pytest.raises(StoreError, match="another machine"):
        open_writer(machine=Machine("one"))


def test_a_manifest_without_a_machine_is_anybodys(open_writer, root, cuda_rows):
    fill(open_writer, cuda_rows)
    assert "machine" not in json.loads(manifest_path(root, NODE).read_bytes())
    fill(open_writer, cuda_rows, machine=Machine("one"))
    assert machine_of(root) == "one"


def test_who_does_not_know_the_machine_leaves_it_as_it_is(open_writer, root, cuda_rows):
    fill(open_writer, cuda_rows, machine=Machine("one"))
    writer = open_writer()
    writer.take_number()
    writer.append("cuda_events", cuda_rows(7))
    writer.seal(NOW + 1)
    assert machine_of(root) == "one"


def test_other_nodes_of_the_store_do_not_matter(open_writer, root, cuda_rows):
    fill(open_writer, cuda_rows, machine=Machine("one"))
    fill(open_writer, cuda_rows, node="node-b", machine=Machine("two"))
    assert machine_of(root) == "one"
