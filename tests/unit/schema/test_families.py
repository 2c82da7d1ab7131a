"""A family is declared once: what is recorded, shown, summed, exported and documented follows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.kernel import HOOKS
from cotenant.schema.families import FAMILIES, KERNEL_FAMILIES
from tests.generation import OBJECTS, ROOT, compiled, copied, edit, generate
from tests.views.perfetto_reader import read

# What a developer would write, and nothing else.
EVENT = """
enum weather_op {
	WEATHER_OP_rain = 1,
	WEATHER_OP_hail = 2,
};

struct weather_event {
	struct event_head head;
	__u16 op DOC("rain or hail") AS("enum:weather_op");
	__u16 reserved;
	__u32 weight DOC("how many events this row stands for");
	__u64 duration_ns DOC("from the first drop to the last");
	__u64 drops DOC("drops that fell");
};
"""
PROGRAM = """
#include "kernel/owner.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(weather_event);
VALUES(weather_op);
"""
FAMILY = """
from cotenant.schema.events import WEATHER_EVENTS
from cotenant.schema.family import Family

FAMILY = Family(WEATHER_EVENTS, title="Weather", doc="what fell on the machine room")
"""
NOW_NS = 1_790_000_000_000_000_000
EVENTS = 23
# Rows of it in a store, and what all who read the store make of them.
READERS = f"""
import json
import sys
from pathlib import Path

import pyarrow as pa

import cotenant
from cotenant.query.engine.session import Session
from cotenant.query.screens import activity
from cotenant.query.screens.timeline.details import cell_sql
from cotenant.query.screens.timeline.lanes import Lanes
from cotenant.query.screens.timeline.tiles import tile
from cotenant.store.writer import StoreWriter
from cotenant.views.export import export

store, trace = Path(sys.argv[1]), Path(sys.argv[2])
now, events = {NOW_NS}, {EVENTS}
who = {{"cgroup_id": 11, "tenant": "train", "container_id": "c", "node": "n", "boot_id": "b"}}
one = {{"pid": 7, "tid": 8, "cgroup_id": 11, "comm": "sky", "op": "hail", "duration_ns": 1000,
       "weight": 1, "drops": 5}}
with StoreWriter(store, node="n", boot_id="b") as writer:
    writer.replace("containers", pa.Table.from_pylist([who]))
    rows = [one | {{"timestamp_ns": now + 10_000 * i}} for i in range(events)]
    writer.append("weather_events", pa.Table.from_pylist(rows))
    writer.seal(now)
with Session(store) as session:
    lanes = Lanes()
    lanes.look(session)
    made = tile(session, lanes, now, 1 << 20)
    (lane,) = lanes.all
    (cell,) = session.ask(cell_sql(lane, [], now, now + 10**9)).rows()
    (tenant,) = session.ask(activity.tenants_sql(now, now + 10**9)).rows()
    export(session, "perfetto", trace)
print(json.dumps({{
    "package": cotenant.__file__, "lane": [lane.family, lane.tenant], "slices": len(made.lane),
    "names": made.names, "cell": cell, "tenant": tenant,
}}))
"""


class Checkout:
    """A copy of the package and its tools, with one family more."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "src/cotenant"
        left_out = shutil.ignore_patterns("__pycache__", "objects")
        shutil.copytree(ROOT / "src/cotenant", self.package, ignore=left_out)
        shutil.copytree(ROOT / "tools", root / "tools", ignore=left_out)
        bpf = copied(root)
        edit(bpf / "common/event.h", "EVENT_TCP = 6,", "EVENT_TCP = 6,\n\tEVENT_WEATHER = 7,")
        edit(bpf / "common/kernel_event.h", "enum tcp_op {", f"{EVENT}\nenum tcp_op {{")
        (bpf / "kernel/weather.bpf.c").write_text(PROGRAM)
        objects = [*OBJECTS.glob("*.bpf.o"), compiled(bpf, "kernel/weather.bpf.c")]
        done = generate(self.package / "schema", *objects)
        assert done.returncode == 0, done.stderr

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Python, with this package instead of the one that is installed."""
        environment = os.environ | {"PYTHONPATH": str(self.root / "src")}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    (made.package / "schema/families/weather.py").write_text(FAMILY)
    return made


@pytest.fixture(scope="module")
def told(checkout: Checkout) -> dict[str, Any]:
    done = checkout.run("-c", READERS, checkout.root / "store", checkout.root / "a.pftrace")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert Path(found["package"]).is_relative_to(checkout.root)
    return found


def test_it_can_be_recorded(checkout: Checkout) -> None:
    shown = checkout.run("-m", "cotenant", "record", "--help")
    assert "cuda,nccl,host,io,net,tcp,weather" in "".join(shown.stdout.split())
    refused = checkout.run("-m", "cotenant", "record", "--events", "snow")
    assert refused.stderr.rstrip().endswith("choose from cuda, nccl, host, io, net, tcp, weather")


def test_it_has_a_lane_on_the_timeline(told: dict[str, Any]) -> None:
    assert told["lane"] == ["weather", "train"]
    assert (told["slices"], told["names"]) == (EVENTS, ["hail"])
    assert told["cell"] == {
        "name": "hail", "events": EVENTS, "total_ns": EVENTS * 1000, "longest_ns": 1000,
    }  # fmt: skip


def test_it_is_part_of_a_tenants_activity(told: dict[str, Any]) -> None:
    assert told["tenant"]["weather_events"] == EVENTS


def test_it_has_a_track_in_perfetto(told: dict[str, Any], checkout: Checkout) -> None:
    reading = read((checkout.root / "a.pftrace").read_bytes())
    assert sorted(reading.slices) == sorted(
        ("train", "sky 8 in Weather", "hail", NOW_NS + 10_000 * i, NOW_NS + 10_000 * i + 1000)
        for i in range(EVENTS)
    )


def test_it_is_listed_with_its_tenants(told: dict[str, Any], checkout: Checkout) -> None:
    listed = checkout.run("-m", "cotenant", "tenants", "--store", "store")
    heads, _, row = (line.split() for line in listed.stdout.splitlines()[:3])
    assert row[heads.index("weather")] == str(EVENTS)


def test_it_is_documented(checkout: Checkout) -> None:
    done = checkout.run("tools/gen_reference.py")
    assert done.returncode == 0, done.stderr
    tables = (checkout.root / "docs/reference/tables.md").read_text()
    _, _, page = tables.partition("## `weather_events`\n")
    assert "[More](../events/weather.md): what fell on the machine room." in page
    assert "| `drops` | int64 | drops that fell |" in page
    assert "| `family` | string, never NULL | cuda, nccl, host, io, net, tcp or weather |" in tables
    commands = (checkout.root / "docs/reference/commands.md").read_text()
    assert "families to record, out of cuda,nccl,host,io,net,tcp,weather" in commands


def test_events_without_a_family_say_which_module_is_missing(tmp_path: Path) -> None:
    done = Checkout(tmp_path).run("-m", "cotenant", "record", "--help")
    assert "No module named 'cotenant.schema.families.weather'" in done.stderr


def test_every_family_has_its_page() -> None:
    pages = {path.stem for path in (ROOT / "docs/events").glob("*.md")}
    assert pages == FAMILIES.keys()


def test_the_kernels_families_have_hooks() -> None:
    assert {hook.family for hook in HOOKS} == set(KERNEL_FAMILIES)
