"""A store of several nodes on the page: groups of lanes, and of many an overview first."""

import pyarrow as pa
import pytest

from bench.fleet import Recording, fill, node_name
from cotenant.store.writer import StoreWriter
from tests.browser.axe import faults_in_any_theme
from tests.serving import serving
from tests.virtual.device import START_NS
from tests.virtual.scenarios import noisy_neighbour

NODES = "() => cotenant.timeline.layout.rows.filter((row) => row.kind === 'node')"
MANY = 9
PATIENCE_MS = 120_000
LOSSY = node_name(7)
LOOKED_AT = ("containers", "cuda_events", "nccl_events", "losses", "spans", "span_mixes")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    made = Recording(noisy_neighbour(tmp_path_factory.mktemp("noisy") / "store", seed=3).root)
    # What nothing here looks at would take its time on each node.
    made.rows = {name: rows for name, rows in made.rows.items() if name in LOOKED_AT}
    return made


@pytest.fixture(scope="module")
def three(recording, tmp_path_factory):
    root = tmp_path_factory.mktemp("three") / "store"
    fill(recording, root, 3)
    with serving(root) as served:
        yield served


@pytest.fixture(scope="module")
def many(recording, tmp_path_factory):
    root = tmp_path_factory.mktemp("many") / "store"
    fill(recording, root, MANY)
    with StoreWriter(root, node=LOSSY, boot_id=f"boot_id-{LOSSY}") as writer:
        loss = {"timestamp_ns": START_NS, "family": "cuda", "cgroup_id": 7, "queued": 0}
        loss |= {"seen": 58, "stored": 47, "shed": 0, "lost": 11}
        writer.append("losses", pa.Table.from_pylist([loss]))
        count = {"timestamp_ns": START_NS, "cgroup_id": 7, "family": "cuda", "function": "f"}
        count |= {"count": 1, "sum_ns": 1, "max_ns": 1, "bytes": 0, "histogram": [1]}
        writer.append("totals", pa.Table.from_pylist([count]))
        writer.seal(START_NS)
    with serving(root) as served:
        yield served


def test_nodes_are_groups_of_lanes_that_a_click_closes(three, visit):
    tab = visit(three)
    tab.settled()
    assert [row["label"] for row in tab.run(NODES)] == [node_name(n) for n in range(3)]
    # The job is on each node, its lanes are not the same.
    job = tab.run("() => cotenant.status.lanes.filter((lane) => lane.tenant === 'slurm/1000')")
    assert sorted(lane["node"] for lane in job) == [node_name(n) for n in range(3)]
    before = tab.run("() => cotenant.timeline.layout.rows.length")
    box = tab.page.locator("#lanes").bounding_box()
    tab.page.mouse.click(box["x"] + 300, box["y"] + 26 + 15)
    assert tab.run(NODES)[0]["folded"]
    assert tab.run("() => cotenant.timeline.layout.rows.length") < before
    tab.until("() => location.hash.includes('close=node-0000')")


def test_a_lane_has_events_of_its_own_node(three):
    lanes = three.request("/api/status").json["lanes"]
    (lane,) = [one for one in lanes if (one["tenant"], one["node"]) == ("slurm/1000", "node-0001")]
    cell = f"lane={lane['id']}&from={START_NS}&to={START_NS + 10**12}"
    assert three.request(f"/api/cell?{cell}").json["rows"][0][:2] == ["AllReduce", 211]


def test_of_many_nodes_an_overview_comes_first_and_opens_one(many, visit):
    tab = visit(many)
    tab.page.locator("#fleet td a").nth(MANY - 1).wait_for(timeout=PATIENCE_MS)
    row = tab.page.locator("#fleet tr", has=tab.page.get_by_role("link", name=LOSSY))
    # Each comes by itself, and not for all nodes at once.
    for words in ("slows", "11 events lost"):
        row.locator("td", has_text=words).first.wait_for(timeout=PATIENCE_MS)
    told = row.inner_text()
    assert "11 events lost" in told
    assert "slows" in told
    assert tab.page.locator("#lanes").is_hidden()
    tab.page.fill("#fleet input", "0007")
    assert tab.page.locator("#fleet td a").all_inner_texts() == [LOSSY]
    tab.page.get_by_role("link", name=LOSSY).click()
    tab.until("() => globalThis.cotenant?.opened")
    tab.settled()
    assert f"node {LOSSY}: " in tab.page.locator("#status").inner_text()
    assert {lane["node"] for lane in tab.run("() => cotenant.status.lanes")} == {LOSSY}
    tab.page.click("#fold")
    tab.page.fill("#text", "SELECT count(DISTINCT node) AS nodes FROM cuda_events")
    tab.page.click("#run")
    answer = tab.page.locator("#answer tbody td").first
    assert answer.inner_text(timeout=PATIENCE_MS) == "1"
    tab.page.get_by_role("link", name="All nodes").click()
    tab.page.locator("#fleet td a").nth(MANY - 1).wait_for(timeout=PATIENCE_MS)
    assert tab.complaints == []


def test_the_overview_has_no_serious_fault(many, visit):
    tab = visit(many)
    tab.page.locator("#fleet td", has_text="11 events lost").wait_for(timeout=PATIENCE_MS)
    tab.page.locator("#findings .finding").first.wait_for(timeout=PATIENCE_MS)
    assert faults_in_any_theme(tab.page) == []


def test_a_finding_of_the_overview_opens_its_node(many, visit):
    tab = visit(many)
    tab.page.locator("#findings .finding").first.click(timeout=PATIENCE_MS)
    tab.until("() => globalThis.cotenant?.opened")
    assert tab.run("() => cotenant.view.node").startswith("node-000")


def test_a_node_that_is_not_there_is_refused_in_words(many):
    for path in ("status", "findings", "queued?from=1&to=2"):
        mark = "&" if "?" in path else "?"
        refused = many.request(f"/api/{path}{mark}node=node-9999")
        assert (refused.status, refused.error) == (400, "there is no node node-9999")


def test_a_tenant_sees_its_own_nodes_and_learns_of_no_others(recording, tmp_path):
    fill(recording, tmp_path / "store", MANY)
    mine = f"team-2/ml/train-{2}"
    with serving(tmp_path / "store", "--tenant", mine) as served:
        status = served.request("/api/status").json
        assert status["nodes"] == []
        assert {lane["node"] for lane in status["lanes"]} == {node_name(2)}
        for node in (node_name(2), node_name(3), "node-9999"):
            refused = served.request(f"/api/status?node={node}")
            assert (refused.status, refused.error) == (
                400, "this page is of one tenant, on all its nodes",
            )  # fmt: skip
        assert "unknown" in served.request("/api/fleet").json["coverage"]
