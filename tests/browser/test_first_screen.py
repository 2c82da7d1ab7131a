"""What somebody sees first: who disturbs whom, on a desk and on a phone."""

import json
import re
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from cotenant.store.writer import StoreWriter
from tests.serving import CONTAINERS, NOW_NS, TENANTS, serving, three_tenants

STATIC = Path(__file__).parents[2] / "src/cotenant/views/web/static"
FINDINGS = {
    "findings": [
        {"kind": "neighbour", "victim": "ml/train", "culprit": "ml/serve", "share": 0.163,
         "confidence": 0.99, "title": "ml/serve slows ml/train on GPU-636f7465-6e61-6e74 by MPS",
         "evidence": ["its work takes 1.33 times as long", "both had work for 13.2 s"],
         "base": "its time with work", "cost_ns": 1.6e9, "next": "cotenant ask interference"},
        *({"kind": "starvation", "victim": f"host-{n}", "culprit": None, "share": 0.2,
           "confidence": 0.8, "title": f"host-{n} waits", "evidence": [], "next": "",
           "base": "its time", "cost_ns": 0}
          for n in range(5)),
    ],
    "lacks": [],
}  # fmt: skip
PAIRS = {
    "columns": ["victim", "aggressor", "slowdown", "ci_low", "ci_high", "p", "cause", "evidence"],
    "rows": [
        ["ml/train", "ml/serve", 1.33, 1.29, 1.36, 0.005, "time slicing", "evidence"],
        ["ml/serve", "ml/train", 1.88, 0.9, 2.4, 0.187, "time slicing", "none"],
        ["slurm/4711", "ml/train", 1.23, 0.98, 1.3, 0.07, "time slicing", "maybe"],
    ],
    "sql": "",
    "lacks": [],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = three_tenants(tmp_path_factory.mktemp("first") / "store")
    cron = {"cgroup_id": 23, "tenant": "cron.service", "container_id": "cron.service"}
    cron |= {"node": "n", "boot_id": "b"}
    with StoreWriter(root, node="n", boot_id="b") as writer:
        writer.replace("containers", pa.Table.from_pylist([*CONTAINERS, cron]))
        io = {"timestamp_ns": NOW_NS, "pid": 7, "tid": 7, "cgroup_id": 23, "comm": "cron"}
        io |= {
            "op": "write",
            "duration_ns": 1000,
            "bytes": 4096,
            "device": "vda",
            "sector": 0,
            "error": 0,
            "attribution": "task",
            "weight": 1,
        }
        writer.append("io_events", pa.Table.from_pylist([io]))
        writer.seal(NOW_NS)
    return root


@pytest.fixture(scope="module")
def served(store):
    with serving(store, environment={"COTENANT_TOKEN": "plus+and/slash=are+fine"}) as running:
        yield running


@pytest.fixture
def tab(served, visit):
    """The page, with findings that we know."""

    def tab(more="", status=None, answers=None):
        opened = visit(served, "", token=False)
        route = opened.page.route
        told = {"findings": FINDINGS, "interference": PAIRS} | (answers or {})
        for name, answer in told.items():
            route(f"**/api/{name}", partial(answered, answer))
        if status:
            route("**/api/status", lambda route: route.fulfill(json=changed(route, status)))
        opened.page.goto("about:blank")
        # A token that somebody chose may have any of the letters that HTTP allows.
        opened.page.goto(f"{served.url}#token={served.token or 'plus+and/slash=are+fine'}{more}")
        if not more:
            opened.settled()
        return opened

    return tab


def answered(answer, route):
    if answer is not None:  # Else it stays on its way.
        route.fulfill(json=answer)


def changed(route, more):
    return json.loads(route.fetch().body()) | more


@pytest.mark.parametrize("width", [1440, 390])
def test_findings_come_first_and_everything_fits(tab, width):
    opened = tab()
    opened.page.set_viewport_size({"width": width, "height": 844})
    first = opened.page.locator("#findings .finding").first
    first.wait_for()
    assert "ml/serve slows ml/train on GPU-636f7465… by MPS" in first.inner_text()
    assert "costs ml/train 1.60 s, 16.3 % of its time with work" in first.inner_text()
    assert first.bounding_box()["y"] + first.bounding_box()["height"] < 844
    assert opened.run("() => document.documentElement.scrollWidth") <= width
    status = opened.page.locator("#status").bounding_box()
    assert status["x"] + status["width"] <= width
    assert opened.page.locator("#findings .finding").count() == 3
    opened.page.get_by_role("button", name="3 more").click()
    assert opened.page.locator("#findings .finding").count() == 6


def test_until_it_is_known_the_page_says_that_it_looks(tab):
    opened = tab(answers={"findings": None})
    assert "Looking at who slows whom" in opened.page.locator("#findings").inner_text()


def test_what_may_be_so_is_told_where_nothing_surely_is(tab):
    maybe = {"victim": "a", "title": "b may slow a: 1.2 times as long", "next": "cotenant ask"}
    opened = tab(answers={"findings": {"findings": [], "maybes": [maybe], "lacks": []}})
    opened.page.locator("#findings p", has_text="Maybe: b may slow a").wait_for()
    assert "Nothing stands out" in opened.page.locator("#findings").inner_text()


def test_of_many_pairs_the_surest_are_listed(tab):
    sure = [[f"a-{n}", f"b-{n}", 1 + n / 100, 1, 2, 0.01, "", "evidence"] for n in range(9)]
    unsure = [["x", "y", 9.0, 0.9, 2, 0.07, "", "maybe"], ["y", "x", 9.9, 0.5, 20, 0.4, "", "none"]]
    opened = tab(answers={"interference": PAIRS | {"rows": [*unsure, *sure]}})
    opened.page.locator(".pairs").wait_for()
    rows = opened.page.locator(".pairs tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == [f"a-{n}" for n in range(8, 0, -1)]
    assert (
        "and 2 more pairs"
        in opened.page.locator(".card", has=opened.page.locator(".pairs")).inner_text()
    )


def test_what_the_recording_lacks_is_said_once(tab):
    lost = "incomplete: 5 of 58 cuda events were lost"
    less = "incomplete: 2 of 58 cuda events were lost"
    answers = {"findings": FINDINGS | {"lacks": [lost]}, "interference": PAIRS | {"lacks": [less]}}
    opened = tab(status={"lacks": [lost]}, answers=answers)
    opened.page.locator(".card .lacks").first.wait_for()
    assert opened.page.locator("#findings .lacks").count() == 0
    said = opened.page.locator(".lacks").all_inner_texts()
    assert set(said) == {"incomplete: see above"}
    assert opened.page.locator("#notice").inner_text() == lost


def test_what_only_an_answer_lacks_is_said_there(tab):
    few = "incomplete: 2 of 58 cuda events were lost"
    opened = tab(status={"lacks": []}, answers={"interference": PAIRS | {"lacks": [few]}})
    opened.page.locator(".card .lacks", has_text=few).wait_for()


def test_what_an_answer_lacks_beside_the_recording_is_said_there(tab):
    lost = "incomplete: 5 of 58 cuda events were lost"
    hole = "incomplete: operations in spans of train-{} missing for 1 s (no room for spans)"
    answers = {
        "findings": FINDINGS | {"lacks": [lost, hole.format(1)]},
        "interference": PAIRS | {"lacks": [lost, hole.format(2)]},
    }
    opened = tab(status={"lacks": [lost, hole.format(3)]}, answers=answers)
    opened.page.locator(".card .lacks", has_text=hole.format(2)).wait_for()
    assert opened.page.locator("#findings .lacks").all_inner_texts() == [hole.format(1)]
    card = opened.page.locator(".card", has_text=hole.format(2))
    assert card.locator(".lacks").all_inner_texts() == [hole.format(2), "incomplete: see above"]


def test_cards_begin_at_the_top_however_little_they_say(tab):
    opened = tab()
    opened.page.locator(".finding").nth(2).wait_for()
    titles = [one.bounding_box() for one in opened.page.locator(".finding b").all()[:3]]
    assert len({box["y"] for box in titles}) == 1


def test_a_click_on_a_finding_shows_victim_and_culprit(tab):
    opened = tab()
    opened.page.locator("#findings .finding").first.click()
    off = opened.run("() => [...cotenant.view.off].sort()")
    assert off == ["cron.service", "slurm/4711"]
    assert opened.run("() => cotenant.view.start < cotenant.view.last")


def test_forty_tenants_have_forty_colours_that_stay_theirs(tab):
    opened = tab()
    names = [f"team-{n}/job" for n in range(40)]
    learn = f"() => {{ cotenant.theme.learn({names}, 'x'); "
    told = learn + f"return {names}.map((name) => cotenant.theme.of(name)); }}"
    colours = opened.run(told)
    assert len(set(colours)) == 40
    opened.page.reload()
    opened.settled()
    again = opened.run(told.replace(str(names), str(names[::-1]), 1))
    assert again[:8] == colours[:8]


def test_who_has_no_gpu_work_is_grey_and_one_of_the_others(tab):
    opened = tab()
    chips = opened.page.locator("#tenants .chip b").all_inner_texts()
    assert sorted(chips) == sorted([*TENANTS, "others"])
    assert opened.run("() => cotenant.theme.of('cron.service') === cotenant.theme.none")
    opened.page.locator(".chip", has_text="others").click()
    assert opened.run("() => [...cotenant.view.off]") == ["cron.service"]


def test_heat_is_what_the_test_says_and_not_the_factor(tab):
    opened = tab()
    opened.page.locator(".matrix").wait_for()
    cells = opened.run(
        "() => Object.fromEntries([...document.querySelectorAll('.matrix td')]"
        ".map((td) => [td.innerText.split('\\n')[0], [td.className, td.innerText]]))"
    )
    assert cells["1.33×"] == ["evidence", "1.33×"]
    assert cells["1.88×"][0] == "none"
    assert "no evidence" in cells["1.88×"][1]
    assert cells["1.23×"][0] == "maybe"


def test_time_in_cuda_says_whose_it_is(tab):
    opened = tab()
    card = opened.page.locator(".card[data-title='Where time in CUDA goes']")
    card.locator("td.who").first.wait_for()
    assert set(card.locator("td.who").all_inner_texts()) == set(TENANTS)


def test_a_link_to_another_time_says_so_and_leads_back(tab):
    opened = tab(f"&from={NOW_NS - 86_400 * 10**9}&span=1000000000")
    opened.page.locator("#notice button").wait_for()
    assert "is not in this recording" in opened.page.locator("#notice").inner_text()
    opened.page.get_by_role("button", name="Go to the recording").click()
    assert opened.run("() => !cotenant.outside")
    assert opened.page.locator("#notice").is_hidden()


def test_a_large_recording_opens_on_its_newest_part_below_a_strip_of_all(tab):
    since_ns = NOW_NS + 700_000_000
    strip = {"cell_ns": 1_000_000_000, "tenants": {"ml/train": [0]}}
    opened = tab(status={"newest_ns": str(since_ns)}, answers={"strip*": strip})
    assert opened.run("() => String(cotenant.view.absolute(cotenant.view.start))") == str(since_ns)
    assert "opened on the newest" in opened.page.locator("#status").inner_text()
    assert opened.until("() => cotenant.timeline.strip?.tenants")["ml/train"] == [0]
    # Nothing but what is on screen was read.
    begun = [url for url in opened.asked if "/api/tile" in url]
    opened.page.get_by_role("button", name="Whole recording").click()
    opened.until("() => cotenant.view.start <= cotenant.view.first")
    opened.settled()
    assert len([url for url in opened.asked if "/api/tile" in url]) > len(begun)


def test_a_live_page_that_is_late_says_so(tab):
    opened = tab(status={"state": "live", "behind_s": 31.4})
    assert "the newest event is 31 s old" in opened.page.locator("#status").inner_text()


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_can_be_read_on_every_ground():
    for block in re.findall(r":root[^{]*\{([^}]*)\}", (STATIC / "page.css").read_text())[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for ink in ("ink", "quiet", "faint"):
            for ground in ("ground", "panel", "raised"):
                one, other = sorted((luminance(colours[ink]), luminance(colours[ground])))
                assert (other + 0.05) / (one + 0.05) >= 4.5, (ink, ground, colours)
