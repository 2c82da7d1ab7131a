"""Block I/O of two tenants in each other's way, compared with where the bytes are on the disk."""

import fcntl
import os
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kernel.conftest import Cgroup, Recording, record
from tests.kernel.current_task import READ, WRITE, again_if_hidden, count_by_current_task
from tests.kernel.tenants import finish, python

MIB = 1 << 20
SIZE = 47 * MIB
FIEMAP = 0xC020660B

BURN = "import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"


def extents(path: Path) -> list[tuple[int, int]]:
    """Where the file's bytes are: first byte and length on the disk, from the file system."""
    room = 512
    head = struct.pack("QQIIII", 0, (1 << 64) - 1, 1, 0, room, 0)
    buffer = bytearray(head + bytes(56 * room))
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, FIEMAP, buffer)
    finally:
        os.close(fd)
    count = struct.unpack_from("I", buffer, 20)[0]
    assert 0 < count < room
    found = []
    for index in range(count):
        _, physical, length = struct.unpack_from("QQQ", buffer, 32 + 56 * index)
        found.append((physical, length))
    return found


def charged(recording: Recording, path: Path, op: str) -> Counter[str]:
    """Bytes of requests inside the file's blocks, by the tenant that they were charged to."""
    inside = " or ".join(
        f"(sector * 512 >= {first} and sector * 512 < {first + length})"
        for first, length in extents(path)
    )
    rows = recording.sql(
        "select cgroup_path, attribution, sum(bytes)::bigint as bytes "
        "from io_events left join containers using (cgroup_id) "
        f"where op = '{op}' and ({inside}) group by all"
    )
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["cgroup_path"] or row["attribution"]] += row["bytes"]
    return sums


def check(
    found: Counter[str], owner: Cgroup, other: Cgroup, size: int, passes: int = 1
) -> tuple[int, float]:
    """Bytes charged to the wrong tenant, which must be none, and the share that is known."""
    wrong = found[f"/{other.name}"]
    known = found[f"/{owner.name}"]
    assert wrong == 0
    assert known >= size * passes * 0.999
    return wrong, known / sum(found.values())


@contextmanager
def burning(cgroup: Cgroup) -> Iterator[None]:
    """The tenant keeps every CPU busy."""
    burners = [python(cgroup, BURN.format(cpu=cpu)) for cpu in range(min(os.cpu_count() or 1, 4))]
    time.sleep(0.3)
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.communicate()


def dd(cgroup: Cgroup, *words: object) -> int:
    """A copy inside a cgroup; how many bytes it says it moved."""
    process = cgroup.popen(["dd", *words], stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return int(errors.splitlines()[-1].split()[0])


@pytest.fixture
def file() -> Iterator[Path]:
    """A file on a disk, not in memory."""
    path = Path("/var/tmp") / f"cotenant-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


def write(path: Path, cgroup: Cgroup, size: int = SIZE, *more: str) -> int:
    """Fill the file through the page cache."""
    return dd(cgroup, "if=/dev/zero", f"of={path}", "bs=1M", f"count={size // MIB}", *more)


@again_if_hidden
def test_what_the_flusher_writes_belongs_to_who_dirtied_it(
    cgroups: Callable[[], Cgroup], store: Path, file: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    a, b = cgroups(), cgroups()
    with (
        record(store, "--events", "io") as recording,
        count_by_current_task(tmp_path, "current_complete") as current,
    ):
        with burning(b):
            assert write(file, a) == SIZE
            os.sync()
        by_current = current.amount(WRITE, a)
        to_other = current.amount(WRITE, b)
    found = charged(recording, file, "write")
    wrong, known = check(found, a, b, SIZE)
    assert found[f"/{a.name}"] == SIZE
    with capsys.disabled():
        print(
            f"\nflusher: {wrong} bytes wrong, {known:.2%} known; by current task "
            f"{by_current / SIZE:.0%} right, {to_other / SIZE:.0%} charged to the other"
        )


@again_if_hidden
def test_an_fsync_by_another_tenant_does_not_make_the_bytes_its_own(
    cgroups: Callable[[], Cgroup], store: Path, file: Path
) -> None:
    a, b = cgroups(), cgroups()
    with record(store, "--events", "io") as recording:
        assert write(file, a) == SIZE
        finish(b.popen(["sync", "-d", file]))
    found = charged(recording, file, "write")
    check(found, a, b, SIZE)
    assert found[f"/{a.name}"] == SIZE


@again_if_hidden
def test_a_page_that_another_tenant_cached_first_belongs_to_who_overwrites_it(
    cgroups: Callable[[], Cgroup], store: Path, file: Path
) -> None:
    a, b = cgroups(), cgroups()
    with record(store, "--events", "io") as recording:
        # The file is on disk, and in no cache; then the other tenant reads all of it.
        write(file, b, SIZE, "conv=fsync")
        fd = os.open(file, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        dd(b, f"if={file}", "of=/dev/null", "bs=1M")
        assert write(file, a, SIZE, "conv=notrunc") == SIZE
        os.sync()
    found = charged(recording, file, "write")
    assert found[f"/{a.name}"] == SIZE
    assert found[f"/{b.name}"] == SIZE
    reads = charged(recording, file, "read")
    assert reads == {f"/{b.name}": SIZE}


@again_if_hidden
def test_reads_belong_to_the_reader_whoever_has_the_cpu_when_they_complete(
    cgroups: Callable[[], Cgroup], store: Path, file: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    a, b = cgroups(), cgroups()
    write(file, a, SIZE, "conv=fsync")
    with (
        record(store, "--events", "io") as recording,
        count_by_current_task(tmp_path, "current_complete") as current,
    ):
        with burning(b):
            moved = dd(a, f"if={file}", "of=/dev/null", "bs=256k", "iflag=direct")
        by_current = current.amount(READ, a)
        to_other = current.amount(READ, b)
    assert moved == SIZE
    found = charged(recording, file, "read")
    assert found == {f"/{a.name}": SIZE}
    with capsys.disabled():
        print(f"\nreads: 0 bytes wrong, 100% known; by current task {by_current / SIZE:.0%} right, "
              f"{to_other / SIZE:.0%} charged to the other")  # fmt: skip


@again_if_hidden
def test_pages_of_one_file_belong_each_to_their_own_writer(
    cgroups: Callable[[], Cgroup], store: Path, file: Path
) -> None:
    a, b = cgroups(), cgroups()
    part = 13 * MIB
    with record(store, "--events", "io") as recording:
        write(file, a, part)
        write(file, b, part, f"seek={part // MIB}", "conv=notrunc")
        os.sync()
    found = charged(recording, file, "write")
    assert found == {f"/{a.name}": part, f"/{b.name}": part}


@contextmanager
def loop_device(directory: Path) -> Iterator[tuple[str, Path]]:
    """A disk of our own: its name, and where a file system on it is mounted."""
    image, mount = directory / "disk.img", directory / "mnt"
    mount.mkdir(exist_ok=True)
    with image.open("wb") as stream:
        stream.truncate(128 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=off", image],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    device = made.stdout.strip()
    try:
        with ExitStack() as stack:
            subprocess.run(["mount", device, mount], check=True)
            stack.callback(subprocess.run, ["umount", mount], check=True)
            yield Path(device).name, mount
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def completed(device: str) -> tuple[int, int, int, int]:
    """The disk's own count: reads, bytes read, writes and flushes, bytes written."""
    words = [int(word) for word in Path(f"/sys/block/{device}/stat").read_text().split()]
    return words[0], words[2] * 512, words[4] + words[15], words[6] * 512


@again_if_hidden
def test_requests_and_bytes_are_those_that_the_disk_counts(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    with record(store, "--events", "io") as recording:
        with loop_device(tmp_path) as (device, mount):
            before = completed(device)
            start_ns = time.time_ns()
            file = mount / "file"
            dd(cgroup, "if=/dev/zero", f"of={file}", "bs=64k", "count=211", "conv=fsync")
            dd(cgroup, f"if={file}", "of=/dev/null", "bs=64k", "iflag=direct")
            os.sync()
            after = completed(device)
            end_ns = time.time_ns()
        # The disk is gone now, and the recording goes on.
        finish(cgroup.popen(["true"]))
    rows = recording.sql(
        # The disk counts who waits for a flush as a writer of nothing.
        "select if(op = 'flush', 'write', op) as op, sum(bytes)::bigint as bytes, "
        "count(distinct (timestamp_ns, sector, op))::int as n "
        f"from io_events where device = '{device}' and op in ('read', 'write', 'flush') "
        f"and timestamp_ns between {start_ns} and {end_ns} group by 1"
    )
    told = {row["op"]: (row["n"], row["bytes"]) for row in rows}
    deltas = [now - then for now, then in zip(after, before, strict=True)]
    assert told == {"read": (deltas[0], deltas[1]), "write": (deltas[2], deltas[3])}
    mine = recording.sql(
        "select op, sum(bytes)::bigint as bytes from io_events join containers using (cgroup_id) "
        f"where device = '{device}' and cgroup_path = '/{cgroup.name}' "
        "and op in ('read', 'write') group by op"
    )
    assert {row["op"]: row["bytes"] for row in mine}["write"] == 211 * 65536
    # Journal and metadata are nobody's.
    others = recording.sql(
        "select distinct tenant from io_events join containers using (cgroup_id) "
        f"where device = '{device}' and op = 'write' and cgroup_path is distinct from "
        f"'/{cgroup.name}' and timestamp_ns between {start_ns} and {end_ns}"
    )
    assert others == [{"tenant": "kernel"}]
