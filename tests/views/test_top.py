"""`cotenant top`, driven as a person would."""

import asyncio
import json
import shutil

import pytest

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from cotenant.views.tui.app import Top
from cotenant.views.tui.columns import COLUMNS, layout, milliseconds, percent, short
from cotenant.views.tui.sample import SampleSource
from cotenant.views.tui.screens import Detail, Help, Sql
from cotenant.views.tui.slowed import NOBODY, slowed_words
from tests.serving import KERNELS, LAUNCHES, three_tenants

QUIET_S = 3600.0  # So that only what a test does makes it look again.


@pytest.fixture
def store(tmp_path):
    return three_tenants(tmp_path / "store")


def drive(store, steps, *, size=(80, 24), tenant=None):
    """Run the app without a terminal, and do the steps in it."""

    async def run():
        app = Top(SampleSource(store, tenant), every_s=QUIET_S)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            await steps(app, pilot)

    asyncio.run(run())


async def settled(pilot):
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def tenants(app):
    table = app.screen.query_one("#tenants")
    return [str(table.get_row_at(i)[0])[1:] for i in range(table.row_count)]


def rows_shown(app):
    table = app.screen.query_one("#tenants")
    return [table.get_row_at(i) for i in range(table.row_count)]


def screen_text(app):
    lines = (strip.text for strip in app.screen._compositor.render_strips())
    return "\n".join(lines)


def test_the_busiest_tenant_is_first_and_everything_fits_eighty_columns(store):
    async def steps(app, pilot):
        assert tenants(app) == ["ml/train", "ml/serve", "slurm/4711"]
        shown = screen_text(app)
        assert "launch/s" in shown
        assert "lost" in shown
        assert "slurm/4711" in shown
        table = app.query_one("#tenants")
        assert table.virtual_size.width <= 80

    drive(store, steps)


def test_forty_columns_have_whole_columns_and_a_whole_title(store):
    async def steps(app, pilot):
        lines = screen_text(app).splitlines()
        head = " ".join(" ".join(lines[:3]).split())
        assert "3 tenants, last 1.00 s, by GPU" in head
        assert app.query_one("#tenants").virtual_size.width <= 40
        (titles,) = (line.split() for line in lines if line.startswith("tenant "))
        assert titles == ["tenant", "GPU", "launch/s", "CPU", "wait/s"]
        assert all(len(str(row[0])) <= 13 for row in rows_shown(app))
        assert "q Quit" in lines[-1]
        await pilot.resize_terminal(120, 24)
        assert "retr  lost" in screen_text(app)
        assert "slurm/4711" in tenants(app)

    drive(store, steps, size=(40, 24))


def test_a_longer_name_is_shown_where_there_is_room():
    assert [layout(width).tenant_width for width in (40, 80, 100, 999)] == [13, 16, 29, 48]
    assert len(layout(80).columns) == len(COLUMNS) - 1
    assert layout(90).columns == COLUMNS
    assert layout(10).columns == ()


def test_what_one_tenant_does_fits_forty_columns(store):
    async def steps(app, pilot):
        await pilot.press("enter")
        await settled(pilot)
        assert app.screen.query_one("#kernels").virtual_size.width <= 40
        assert "longest" in screen_text(app)

    drive(store, steps, size=(40, 24))


def test_sorting_goes_from_column_to_column(store):
    async def steps(app, pilot):
        for _ in range(9):
            await pilot.press("s")
        assert app.sorted_by == "lost"
        assert tenants(app)[0] == "slurm/4711"
        for _ in range(2):
            await pilot.press("s")
        assert app.sorted_by == "tenant"
        assert tenants(app) == ["ml/serve", "ml/train", "slurm/4711"]

    drive(store, steps)


def test_filtering_keeps_what_is_typed(store):
    async def steps(app, pilot):
        await pilot.press("slash", *"SERVE")
        assert tenants(app) == ["ml/serve"]
        await pilot.press("enter")
        assert app.query_one("#tenants").has_focus
        assert tenants(app) == ["ml/serve"]

    drive(store, steps)


def test_drilling_down_shows_kernels_and_collectives_and_their_sql(store):
    async def steps(app, pilot):
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, Detail)
        kernels = app.screen.query_one("#kernels")
        row = [str(cell) for cell in kernels.get_row_at(0)]
        assert row[:2] == [KERNELS["ml/train"], str(LAUNCHES["ml/train"])]
        collectives = app.screen.query_one("#collectives")
        assert str(collectives.get_row_at(0)[0]) == "AllReduce"
        await pilot.press("x")
        assert isinstance(app.screen, Sql)
        assert "FROM cuda_events" in app.screen.sql
        await pilot.press("escape", "escape")
        assert tenants(app)[0] == "ml/train"

    drive(store, steps)


def test_the_sql_on_screen_gives_the_same_answer(store, capsys):
    found = {}

    async def steps(app, pilot):
        await pilot.press("x")
        assert isinstance(app.screen, Sql)
        found["sql"] = app.screen.sql

    drive(store, steps)
    assert main(["sql", "--store", str(store), "--format", "json", found["sql"]]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["tenant"] for row in rows] == ["ml/train", "ml/serve", "slurm/4711"]


def test_pausing_help_and_a_longer_time(store):
    async def steps(app, pilot):
        await pilot.press("space")
        assert app.paused
        assert "paused" in screen_text(app)
        await pilot.press("plus")
        await settled(pilot)
        await pilot.press("question_mark")
        assert isinstance(app.screen, Help)
        assert "TCP retransmits a second" in screen_text(app)

    drive(store, steps)


@pytest.mark.parametrize("before", [(), ("slash", "a"), ("question_mark",), ("x",), ("enter",)])
def test_ctrl_c_ends_it_whatever_is_on_screen(store, before):
    ended = []

    async def steps(app, pilot):
        await pilot.press(*before)
        await pilot.press("ctrl+c")
        ended.append(app._exit)

    drive(store, steps)
    assert ended == [True]


def test_losses_are_said_below_the_table(store):
    async def steps(app, pilot):
        assert "incomplete: 5 of 58 cuda events were lost" in screen_text(app)

    drive(store, steps)


def test_one_tenant_is_all_that_is_seen_when_asked_for(store):
    async def steps(app, pilot):
        assert tenants(app) == ["ml/serve"]

    drive(store, steps, tenant="ml/serve")


def test_an_empty_store_and_one_that_disappears_are_told_in_words(store, tmp_path):
    with StoreWriter(tmp_path / "empty", node="n", boot_id="b"):
        pass

    async def empty(app, pilot):
        assert "nothing was recorded in" in screen_text(app)

    async def gone(app, pilot):
        assert len(tenants(app)) == 3
        shutil.rmtree(store)
        app.look()
        await settled(pilot)
        assert tenants(app) == []
        assert "no store at" in screen_text(app)

    drive(tmp_path / "empty", empty)
    drive(store, gone)


def test_once_prints_rates_for_a_program(store, capsys):
    assert main(["top", "--store", str(store), "--once", "--json"]) == 0
    rows = {row["tenant"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(LAUNCHES)
    assert rows["slurm/4711"]["lost"] == 5
    seconds = LAUNCHES["ml/train"] / rows["ml/train"]["launches"]
    assert round(seconds * rows["ml/serve"]["launches"], 6) == LAUNCHES["ml/serve"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (7, "7"), (0.25, "0.2"), (9.96, "10"), (999, "999"), (999.6, "1.0k"),
     (1_234, "1.2k"), (45_678, "46k"), (1.5e9, "1.5G"), (2e12, "2.0T")],
)  # fmt: skip
def test_a_large_number_is_shortened_to_its_unit(number, said):
    assert short(number) == said


def test_a_share_or_time_too_small_to_show_is_not_shown_as_zero():
    assert (percent(0.0), percent(0.001), percent(0.37)) == ("0%", "<1%", "37%")
    assert [milliseconds(ns) for ns in (0, 10_000, 1.5e6, 12e6, 5.045e9)] == [
        "0", "<.1ms", "1.5ms", "12ms", "5.0s",
    ]  # fmt: skip


def test_who_disturbs_whom_is_said_in_a_line():
    pair = {"victim": "train", "aggressor": "noisy", "slowdown": 1.333, "evidence": "evidence"}
    doubtful = pair | {"victim": "serve", "slowdown": 1.9, "evidence": "maybe"}
    unproven = pair | {"victim": "batch", "slowdown": 1.88, "evidence": "none"}
    words = "slowed by: train by noisy 1.33x; serve by noisy 1.90x (maybe)"
    assert slowed_words([pair, doubtful, unproven]) == words
    assert slowed_words([unproven]) == NOBODY
