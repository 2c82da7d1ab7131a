"""Where libraries are looked for, and how far a search goes."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.discovery import directories as search
from cotenant.agent.helper.discovery import mounts, root_search
from cotenant.agent.helper.discovery.directories import DirectorySearch
from cotenant.agent.helper.discovery.root_search import RootSearch
from cotenant.agent.helper.fair_queue import PassedOver

PLACE = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "is_library"),
    [
        ("/usr/lib/libcuda.so.1", True),
        ("/usr/lib/libcuda.so.1 (deleted)", True),
        ("/memfd:libcuda.so.1 (deleted)", True),
        ("/memfd:python (deleted)", False),
        ("//toolong", False),
    ],
)
def test_a_library_is_known_by_its_name_with_and_without_a_path(
    path: str, is_library: bool
) -> None:
    assert search.looks_like_library(path) is is_library


def add(place: Path, *names: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        (place / name).touch()


class Considered:
    """Libraries, as far as the search knows them."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def consider(self, fd: int, path: str, tenant: str, **_: Any) -> bool:
        os.close(fd)
        self.paths.append(path)
        return True


def test_the_usual_places_are_searched_the_driver_first(root: int, tmp_path: Path) -> None:
    add(tmp_path / PLACE, "libnccl.so.2", "libcuda.so.1", "libc.so.6")
    add(tmp_path / "opt/mine/lib", "libcudart.so.12")
    add(tmp_path / "usr/lib/python3/dist-packages/torch/lib", "libtorch_cuda.so")
    assert list(DirectorySearch(root).everywhere()) == [
        f"/{PLACE}/libcuda.so.1",
        f"/{PLACE}/libnccl.so.2",
        "/opt/mine/lib/libcudart.so.12",
        "/usr/lib/python3/dist-packages/torch/lib/libtorch_cuda.so",
    ]
    assert list(DirectorySearch(root).usual("/opt/mine/lib/libcudart.so.12")) == [
        "/opt/mine/lib/libcudart.so.12"
    ]


def test_a_file_comes_before_links_to_it(root: int, tmp_path: Path) -> None:
    add(tmp_path / PLACE, "libcuda.so.535.261.03", "libcudart.so.13.0.1")
    for link in ("libcuda.so", "libcuda.so.1"):
        (tmp_path / PLACE / link).symlink_to("libcuda.so.535.261.03")
    assert list(DirectorySearch(root).usual()) == [
        f"/{PLACE}/libcuda.so.535.261.03",
        f"/{PLACE}/libcuda.so",
        f"/{PLACE}/libcuda.so.1",
        f"/{PLACE}/libcudart.so.13.0.1",
    ]


def test_a_root_full_of_libraries_is_searched_so_far_and_the_rest_is_counted(
    root: int, tmp_path: Path
) -> None:
    add(tmp_path / PLACE, *(f"libcuda.so.{number}" for number in range(307)))
    bounded = DirectorySearch(root)
    assert len(list(bounded.usual())) == 256
    assert bounded.left == 307 - 256


def test_a_root_full_of_files_is_listed_so_far(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_ENTRIES_MAX", 101)
    add(tmp_path / "one", *(f"f{number}" for number in range(103)))
    add(tmp_path / "two", "libcuda.so.1")
    bounded = DirectorySearch(root)
    assert list(bounded.within(["/one", "/two"])) == []
    assert bounded.left == 1


def test_a_layer_is_found_below_the_root_of_whoever_names_it(root: int, tmp_path: Path) -> None:
    """Also where a link in it would lead into the host."""
    add(tmp_path / "layers/one" / PLACE, "libcuda.so.1")
    (tmp_path / "short").symlink_to("/layers/one")
    found = Considered()
    roots = RootSearch(found, lambda _: None, PassedOver())  # type: ignore[arg-type]
    list(roots._layers(root, ["/short", "/layers/one", "/nowhere", "/etc"], "tenant"))
    assert found.paths == [f"/{PLACE}/libcuda.so.1"]


def test_what_a_process_has_mounted_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path / PLACE, "libcuda.so.1")
    table = b"1 1 0:5 / %s rw - tmpfs none rw\n" % bytes(tmp_path)
    read = []
    monkeypatch.setattr(root_search, "mount_table", lambda pid: read.append(pid) or table)
    monkeypatch.setattr(root_search, "library_path", lambda _: ())
    monkeypatch.setattr(root_search, "python_places", lambda _: ((), ()))
    found = Considered()
    roots = RootSearch(found, lambda _: None, PassedOver())  # type: ignore[arg-type]
    assert list(roots.process(os.getpid(), "tenant")) == []  # As the host, it has nothing new.
    monkeypatch.setattr(roots, "home", 0)
    for _ in range(3):
        list(roots.process(os.getpid(), "tenant"))
    assert found.paths == [f"{tmp_path}/{PLACE}/libcuda.so.1"]
    assert read == [os.getpid()] * 3


INSTALLED = (
    "/usr/lib/python3/dist-packages",
    "/usr/local/lib/python3.12/site-packages",
    "/opt/conda/lib/python3.11/site-packages",
    "/opt/conda/envs/train/lib/python3.10/site-packages",
    "/opt/miniforge3/envs/a/lib/python3.13/site-packages",
    "/opt/mine/venv/lib64/python3.9/site-packages",
    "/app/.venv/lib/python3.12/site-packages",
    "/app/service/venv/lib/python3.12/site-packages",
    "/workspace/env/lib/python3.12/site-packages",
    "/srv/model/lib/python3.12/site-packages",
    "/root/.local/lib/python3.12/site-packages",
    "/root/.conda/envs/b/lib/python3.12/site-packages",
    "/root/miniconda3/lib/python3.12/site-packages",
    "/home/ada/.local/lib/python3.12/site-packages",
    "/home/ada/project/.venv/lib/python3.12/site-packages",
    "/home/eve/miniconda3/envs/c/lib/python3.12/site-packages",
    "/home/eve/venvs/venv/lib/python3.12/site-packages",
)


@pytest.mark.parametrize("place", INSTALLED)
def test_what_a_package_brought_is_found_wherever_people_install(
    place: str, root: int, tmp_path: Path
) -> None:
    add(tmp_path / place[1:] / "nvidia/cuda_runtime/lib", "libcudart.so.12")
    add(tmp_path / place[1:] / "nvidia/cu13/lib", "libcudart.so.13")
    wanted = [f"{place}/nvidia/{part}/libcudart.so.{n}" for part, n in
              (("cu13/lib", 13), ("cuda_runtime/lib", 12))]  # fmt: skip
    assert sorted(DirectorySearch(root).everywhere()) == wanted


def test_a_volume_is_searched_for_environments_of_its_own(root: int, tmp_path: Path) -> None:
    add(tmp_path / "data/jobs/venv/lib/python3.12/site-packages/torch/lib", "libnccl.so.2")
    assert list(DirectorySearch(root).environments("/data")) == [
        "/data/jobs/venv/lib/python3.12/site-packages/torch/lib/libnccl.so.2"
    ]


def test_a_place_with_directories_without_end_is_searched_so_far(root: int, tmp_path: Path) -> None:
    for number in range(97):
        (tmp_path / f"app/{number}").mkdir(parents=True)
    place = "app/my-venv-1/lib/python3.12/site-packages/nvidia/nccl/lib"
    add(tmp_path / place, "libnccl.so.2")
    # What looks like an environment by its name comes before the others.
    assert list(DirectorySearch(root).everywhere()) == [f"/{place}/libnccl.so.2"]


def test_a_process_tells_where_its_python_is(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "/data/venv/bin/python3 -c pass"
    environment = {
        "PATH": "/usr/local/bin:/conda/envs/x/bin/:relative/bin:/sbin:",
        "VIRTUAL_ENV": "/data/other",
        "PYTHONPATH": "/shared/packages:relative:",
        "PYTHONUSERBASE": "../up",
    }
    monkeypatch.setattr(
        mounts, "environment", lambda _: [f"{k}={v}".encode() for k, v in environment.items()]
    )
    monkeypatch.setattr("builtins.open", lambda *_: io.BytesIO(command.replace(" ", "\0").encode()))
    assert mounts.python_places(7) == (
        ("/data/venv", "/usr/local", "/conda/envs/x", "/data/other"),
        ("/shared/packages",),
    )
    environment["PATH"] = ":".join(f"/{number}/bin" for number in range(1009))
    assert len(mounts.python_places(7)[0]) == 64
