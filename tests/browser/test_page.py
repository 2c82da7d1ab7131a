"""The page, as somebody at a desk sees and uses it."""

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest

from cotenant.store.writer import StoreWriter
from tests.serving import KERNELS, LAUNCHES, NOW_NS, SECOND_NS, TENANTS, serving, three_tenants

# Which of the colours of each tenant's lanes are on the canvas: pixels by tenant.
PIXELS = """() => {
  const { timeline, theme, status } = cotenant;
  const canvas = timeline.canvas;
  const ratio = canvas.width / canvas.clientWidth;
  const pen = canvas.getContext("2d");
  const found = {};
  for (const { name } of status.tenants) {
    const wanted = new Set([theme.of(name)]);
    for (const tile of timeline.tiles.kept.values()) {
      for (const one of tile.names) wanted.add(theme.tint(name, one));
    }
    let count = 0;
    const left = Math.round(200 * ratio);
    const { data } = pen.getImageData(left, 0, canvas.width - left, canvas.height);
    for (let i = 0; i < data.length; i += 4) {
      const parts = [data[i], data[i + 1], data[i + 2]];
      const colour = parts.map((n) => n.toString(16).padStart(2, "0")).join("");
      if (wanted.has(`#${colour}`)) count++;
    }
    found[name] = count;
  }
  return found;
}"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return three_tenants(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def served(store):
    with serving(store) as running:
        yield running


@pytest.fixture
def tab(served, visit):
    open_tab = visit(served)
    open_tab.settled()
    return open_tab


def test_three_tenants_are_seen_in_three_colours(tab):
    names = list(TENANTS)
    colours = {tab.run(f"() => cotenant.theme.of({name!r})") for name in names}
    assert len(colours) == 3
    pixels = tab.run(PIXELS)
    assert all(pixels[name] > 20 for name in names)


def test_nothing_is_complained_about_and_no_other_host_is_asked(tab, served):
    tab.run("() => cotenant.view.zoom(0.1, cotenant.view.start)")
    tab.settled()
    tab.page.keyboard.press("t")
    tab.page.click("#fold")
    tab.page.click("#run")
    tab.until("() => document.querySelector('#answer table')")
    tab.page.wait_for_timeout(1500)
    assert tab.complaints == []
    assert {url.split("/")[2] for url in tab.asked} == {f"127.0.0.1:{served.port}"}


def test_the_token_does_not_stay_in_the_address(tab, served):
    assert served.token not in tab.page.url
    assert served.token not in tab.run("() => cotenant.view.link()")


def test_a_tenant_that_is_switched_off_is_gone_until_switched_on(tab):
    chip = tab.page.locator('.chip[data-tenant="ml/serve"]')
    chip.click()
    tab.settled()
    assert chip.get_attribute("aria-pressed") == "false"
    pixels = tab.run(PIXELS)
    assert pixels["ml/serve"] == 0
    assert pixels["ml/train"] > 20
    tab.page.keyboard.press("1")
    tab.settled()
    assert tab.run(PIXELS)["ml/serve"] > 20


def test_zooming_in_ends_at_one_launch_whose_name_can_be_read(tab):
    tab.run(f"""() => {{
      const view = cotenant.view;
      view.show(view.relative({NOW_NS}n) - 2000, 12000);
    }}""")
    tab.settled()
    places = tab.run("""() => {
      const { timeline, view } = cotenant;
      const lanes = timeline.layout.rows.filter((one) => one.kind === "lane");
      const row = lanes.find((one) => one.tenant === "slurm/4711");
      const box = timeline.canvas.getBoundingClientRect();
      const x = 190 + (2000 + 2500) / 12000 * (box.width - 190);
      return [box.left + x, box.top + 26 + row.y - timeline.scroll + row.height / 2];
    }""")
    tab.page.mouse.move(*places)
    tab.until("() => !document.querySelector('#tip').hidden")
    assert tab.page.locator("#tip h3").inner_text() == KERNELS["slurm/4711"]
    assert "slurm/4711" in tab.page.locator("#tip").inner_text()
    assert "5.00 µs" in tab.page.locator("#tip").inner_text()
    tab.page.mouse.click(*places)
    tab.until("() => document.querySelector('#selected pre')")
    shown = tab.page.locator("#selected").inner_text()
    assert KERNELS["slurm/4711"] in shown
    assert f"WHERE e.timestamp_ns = {NOW_NS}" in shown
    assert str(TENANTS["slurm/4711"]) in shown


def test_no_slice_is_lost_at_full_zoom(tab):
    seen = tab.run(f"""async () => {{
      const {{ view, timeline, status }} = cotenant;
      const found = new Set();
      const first = view.relative({NOW_NS}n);
      for (let part = 0; part < 4; part++) {{
        view.show(first + part * 250e6, 250e6);
        do await new Promise((done) => setTimeout(done, 50));
        while (timeline.loading);
        for (const {{ tile }} of timeline.parts) for (const [id, lane] of tile.lanes) {{
          const {{ family, tenant }} = status.lanes[id];
          const {{ at, tid }} = lane.slices;
          if (family !== "cuda") continue;
          at.forEach((time, i) => found.add(`${{tenant}} ${{time}} ${{tid[i]}}`));
        }}
      }}
      return [...found];
    }}""")
    counts = {name: sum(one.startswith(f"{name} ") for one in seen) for name in TENANTS}
    assert counts == LAUNCHES


def test_a_link_reproduces_what_is_on_screen(tab, served, visit):
    tab.run(f"""() => {{
      const view = cotenant.view;
      view.toggle("ml/serve");
      view.fold("ml/train");
      view.show(view.relative({NOW_NS}n) + 123456789, 7654321);
      view.select({{ family: "cuda", at: {NOW_NS}n, tid: 103 }});
    }}""")
    state = "() => [cotenant.view.link(), ...cotenant.timeline.layout.rows.map((row) => row.label)]"
    before = tab.run(state)
    tab.until("() => location.hash.includes('event=')")
    again = visit(served, tab.page.url.split("#")[1])
    again.settled()
    again.until("() => document.querySelector('#selected pre')")
    assert again.run(state) == before
    assert KERNELS["slurm/4711"] in again.page.locator("#selected").inner_text()


def test_everything_can_be_done_by_keyboard(tab):
    tab.page.focus("#lanes")
    whole = tab.run("() => cotenant.view.span")
    for _ in range(4):
        tab.page.keyboard.press("+")
    assert tab.run("() => cotenant.view.span") < whole / 5
    start = tab.run("() => cotenant.view.start")
    tab.page.keyboard.press("ArrowRight")
    assert tab.run("() => cotenant.view.start") > start
    tab.settled()
    tab.page.keyboard.press("n")
    tab.until("() => document.querySelector('#selected pre')")
    tab.page.keyboard.press("z")
    assert tab.run("() => cotenant.view.span") < 1e6
    tab.page.keyboard.press("Escape")
    assert tab.run("() => document.querySelector('#selected').hidden")
    tab.page.keyboard.press("Home")
    assert tab.run("() => cotenant.view.span") == whole
    tab.page.keyboard.press("?")
    assert tab.run("() => document.querySelector('#help').open")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("/")
    assert tab.run("() => document.activeElement.id") == "text"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_key(served, visit, theme):
    tab = visit(served, theme=theme)
    tab.settled()
    assert tab.run("() => document.documentElement.dataset.theme") == theme
    tab.page.keyboard.press("t")
    other = {"light": "dark", "dark": "light"}[theme]
    assert tab.run("() => document.documentElement.dataset.theme") == other
    tab.settled()
    assert all(tab.run(PIXELS)[name] > 20 for name in TENANTS)


def test_a_question_from_the_list_is_answered(tab):
    tab.until("() => document.querySelectorAll('#questions option').length > 2")
    tab.page.select_option("#questions", index=1)
    tab.until("() => document.querySelector('#answer table')")
    rows = tab.page.locator("#answer tbody tr").count()
    assert rows == len(KERNELS)
    tab.page.fill("#text", "DROP TABLE cuda_events")
    tab.page.keyboard.press("Control+Enter")
    tab.until("() => document.querySelector('#asked').classList.contains('bad')")
    assert "only reading is allowed" in tab.page.locator("#asked").inner_text()


def test_losses_are_said_on_the_page(tab):
    assert "5 of 58 cuda events were lost" in tab.page.locator("#notice").inner_text()


def test_without_the_token_the_page_asks_for_it(served, visit):
    tab = visit(served, token=False)
    tab.until("() => document.querySelector('#door').open")
    tab.page.fill("#token", f"{served.url}#token={served.token}")
    tab.page.keyboard.press("Enter")
    tab.settled()
    assert all(tab.run(PIXELS)[name] > 20 for name in TENANTS)


def words(tab):
    return tab.page.locator("#notice").inner_text()


def test_an_empty_store_says_so_and_fills_by_itself(tmp_path, visit):
    root = tmp_path / "store"
    with StoreWriter(root, node="n", boot_id="b"):
        pass
    with serving(root) as served:
        tab = visit(served)
        tab.until("() => !document.querySelector('#notice').hidden")
        assert words(tab).startswith("Nothing was recorded yet.")
        three_tenants(root)
        tab.settled()
        assert "lost" in words(tab)


def test_a_page_opened_on_the_first_row_shows_those_that_follow(tmp_path, visit):
    root = tmp_path / "store"
    with StoreWriter(root, node="n", boot_id="b") as writer:
        row = {"timestamp_ns": NOW_NS - SECOND_NS, "pid": 7, "tid": 7, "comm": "new"}
        row |= {"cgroup_id": TENANTS["ml/serve"], "op": "launch", "api": "cuLaunchKernel"}
        row |= {"kernel_name": "first_kernel", "duration_ns": 11, "weight": 1}
        writer.append("cuda_events", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS - SECOND_NS)
    with serving(root) as served:
        tab = visit(served)
        tab.until("() => cotenant.opened")
        three_tenants(root)
        tab.until(
            "() => { const { first, last, start, end } = cotenant.view;"
            " return last - first > 1e6 && start < first && last < end; }"
        )
        seen = f"() => {{ const seen = ({PIXELS})();"
        tab.until(f"{seen} return {list(TENANTS)}.every((name) => seen[name] > 20); }}")


def test_a_store_that_disappears_is_missed_in_words(tmp_path, visit):
    root = three_tenants(tmp_path / "store")
    with serving(root) as served:
        tab = visit(served)
        tab.settled()
        shutil.rmtree(root)
        tab.until("() => document.querySelector('#notice').textContent.startsWith('no store at')")


def test_a_store_being_written_grows_on_screen(tmp_path, visit):
    root = three_tenants(tmp_path / "store")
    with serving(root) as served:
        tab = visit(served)
        tab.settled()
        before = tab.run("() => cotenant.view.last")
        with StoreWriter(root, node="n", boot_id="b") as writer:
            row = {"timestamp_ns": NOW_NS + 5 * SECOND_NS, "pid": 7, "tid": 7, "comm": "new"}
            row |= {"cgroup_id": TENANTS["ml/serve"], "op": "launch", "api": "cuLaunchKernel"}
            row |= {"kernel_name": "late_kernel", "duration_ns": 11, "weight": 1}
            writer.append("cuda_events", pa.Table.from_pylist([row]))
            writer.seal(NOW_NS + 5 * SECOND_NS)
        tab.until(f"() => cotenant.view.last > {before} + 3e9")
        tab.page.keyboard.press("Home")
        tab.settled()
        names = tab.run("() => cotenant.timeline.parts.flatMap((part) => part.tile.names)")
        assert "late_kernel" in names


def test_the_page_works_below_the_path_of_a_proxy(store, visit):
    with serving(store, "--root-path", "/team/gpu") as running:
        tab = visit(replace(running, below="team/gpu/"))
        tab.settled()
        assert all(f":{running.port}/team/gpu/" in address for address in tab.asked), tab.asked
        assert tab.complaints == []
