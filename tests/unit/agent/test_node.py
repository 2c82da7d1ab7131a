"""What a host is called in its store, and which machine it is."""

from pathlib import Path

import pytest

from cotenant.agent import node
from cotenant.agent.config import load_config
from cotenant.errors import UsageError

ID = "0123456789abcdef0123456789abcdef"


def test_the_option_counts_before_the_configuration_and_that_before_the_environment() -> None:
    assert node.node_name("a", "b", {"NODE_NAME": "c"}) == "a"
    assert node.node_name(None, "b", {"NODE_NAME": "c"}) == "b"
    assert node.node_name(None, None, {"NODE_NAME": "c"}) == "c"


@pytest.mark.parametrize("variables", [{}, {"NODE_NAME": ""}])
def test_else_it_is_the_name_of_the_host(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.os, "uname", lambda: type("U", (), {"nodename": "gpu-7.rack"}))
    assert node.node_name(None, None, variables) == "gpu-7.rack"


@pytest.mark.parametrize(
    ("host", "called"), [("(none)", "none"), ("a b/c", "a-b-c"), ("///", "localhost")]
)
def test_no_name_of_a_host_keeps_it_from_being_recorded(
    host: str, called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.os, "uname", lambda: type("U", (), {"nodename": host}))
    assert node.node_name(None, None, {}) == called


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "a=b", "a@b", "a b", "a\n", "-a", "a-", "é", "a" * 201]
)
def test_a_name_that_is_no_part_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"--node .* cannot name a node; use up to 200 letters"):
        node.node_name(name, None, {})
    with pytest.raises(UsageError, match="`node` in the configuration"):
        node.node_name(None, name, {})


def test_the_configuration_names_the_node(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("node = 'gpu-07'\n")
    assert load_config(file).node == "gpu-07"
    file.write_text("node = 7\n")
    with pytest.raises(UsageError, match="`node` must be text"):
        load_config(file)


def test_the_machine_is_a_hash_of_its_id_and_not_the_id(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text(f"{ID}\n")
    hashed = node._hashed(file)
    assert hashed is not None
    assert len(hashed) == 32
    assert hashed != ID
    file.write_text(f"{ID[::-1]}\n")
    assert node._hashed(file) != hashed


@pytest.mark.parametrize("text", ["", "uninitialized\n", ID[1:], f"{ID}0", "é" * 32])
def test_what_is_no_machine_id_is_no_machine(tmp_path: Path, text: str) -> None:
    file = tmp_path / "machine-id"
    file.write_text(text)
    assert node._hashed(file) is None
    assert node._hashed(tmp_path / "none") is None


def test_a_pods_own_machine_id_is_not_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Path] = []
    monkeypatch.setattr(node, "_hashed", lambda place: looked_at.append(place))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert node.machine() is None
    assert Path("/etc/machine-id") not in looked_at
