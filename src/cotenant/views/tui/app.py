"""`cotenant top`: tenants and what they do, refreshed each second."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.reactive import reactive
from textual.widgets import DataTable, Footer, Input, Static

from cotenant.errors import CotenantError
from cotenant.views import text
from cotenant.views.moments import with_zone
from cotenant.views.tui.columns import COLUMNS, ScreenLayout, layout
from cotenant.views.tui.sample import Sample, SampleSource
from cotenant.views.tui.screens import Detail, Help, Sql
from cotenant.views.tui.slowed import NOBODY

PALETTE = ("#3f9fe0", "#f5813a", "#1fc593", "#e58fc0", "#eab530", "#83cdf5", "#c79a6c", "#a19cf5")
_COMPARE_S = 5.0
_NOBODY = frozenset({"host", "kernel", "unknown"})


class Top(App[None]):
    """The list of tenants; keys sort, filter, drill down and show the SQL."""

    TITLE = "cotenant top"
    CSS_PATH = Path("app.tcss")
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("enter", "drill", "Drill", priority=False),
        Binding("x", "sql", "SQL"),
        Binding("plus,equals_sign", "window(2)", "Longer", show=False),
        Binding("minus", "window(0.5)", "Shorter", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("space", "pause", "Pause"),
        # As in any other command; the library would only say which key to press instead.
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    sorted_by: reactive[str] = reactive("gpu_share")
    wanted: reactive[str] = reactive("")
    paused: reactive[bool] = reactive(False)

    def __init__(self, source: SampleSource, *, every_s: float = 1.0) -> None:
        super().__init__()
        self._source = source
        self._every_s = every_s
        self._sample: Sample | None = None
        self._colours: dict[str, str] = {}
        self._layout = layout(80)

    def compose(self) -> ComposeResult:
        """Two lines above, the table, a filter when asked for, and the keys."""
        yield Static(id="head")
        yield Static(id="slowed")
        yield DataTable(id="tenants", cursor_type="row", cell_padding=0, zebra_stripes=False)
        yield Static(id="words")
        yield Input(id="filter", placeholder="part of a tenant's name", compact=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self._lay_out(layout(self.size.width))
        self.query_one("#filter", Input).display = False
        self.look()
        self.compare()
        self.set_interval(self._every_s, self._tick)
        self.set_interval(_COMPARE_S, self._tick_slowly)

    def on_resize(self, event: Resize) -> None:
        """More columns fit, or fewer."""
        if (fitting := layout(event.size.width)) != self._layout:
            self._lay_out(fitting)
            self._draw()

    def _lay_out(self, fitting: ScreenLayout) -> None:
        self._layout = fitting
        table = self.query_one("#tenants", DataTable)
        table.clear(columns=True)
        table.add_column(Text("tenant"), key="tenant", width=fitting.tenant_width)
        for column in fitting.columns:
            title = Text(column.title, justify="right")
            table.add_column(title, key=column.key, width=column.width)

    def _tick(self) -> None:
        if not self.paused:
            self.look()

    def _tick_slowly(self) -> None:
        if not self.paused and self._sample is not None and self._sample.live:
            self.compare()

    @work(thread=True, exclusive=True, group="compare")
    def compare(self) -> None:
        """Who is slowed by whom, which takes a while to tell."""
        try:
            words = self._source.slowed()
        except CotenantError:
            words = ""  # The table says what is wrong.
        self.call_from_thread(self._tell, words)

    def _tell(self, words: str) -> None:
        line = self.query_one("#slowed", Static)
        line.display = bool(words)
        line.update(Text(words, style="#f5813a" if words != NOBODY else "#9aa4b2"))

    @work(thread=True, exclusive=True, group="look")
    def look(self) -> None:
        """Take a sample, away from the screen."""
        try:
            sample = self._source.take()
        except CotenantError as error:
            self.call_from_thread(self._fail, str(error))
        else:
            self.call_from_thread(self._show, sample)

    def _fail(self, words: str) -> None:
        self.query_one("#tenants", DataTable).clear()
        self._sample = None
        self.query_one("#head", Static).update("cotenant top")
        self.query_one("#words", Static).update(Text(words))

    def _show(self, sample: Sample) -> None:
        self._sample = sample
        self._draw()

    def watch_sorted_by(self) -> None:
        """Another column orders the rows."""
        self._draw()

    def watch_wanted(self) -> None:
        """Other tenants are wanted."""
        self._draw()

    def watch_paused(self) -> None:
        """Say so."""
        self._draw()

    def _rows(self, sample: Sample) -> list[dict[str, Any]]:
        wanted = self.wanted.lower()
        rows = [row for row in sample.rows if wanted in str(row["tenant"]).lower()]
        if self.sorted_by == "tenant":
            return sorted(rows, key=lambda row: str(row["tenant"]))
        if self.sorted_by == "gpu_share":
            return rows  # In order of work, and of what is known of it where it is not.
        return sorted(rows, key=lambda row: -(row[self.sorted_by] or 0))

    def _colour(self, tenant: str) -> str:
        if tenant in _NOBODY:
            return "#8d97a5"
        return self._colours.setdefault(tenant, PALETTE[len(self._colours) % len(PALETTE)])

    def _draw(self) -> None:
        sample = self._sample
        if sample is None:
            return
        for row in sorted(sample.rows, key=lambda row: str(row["tenant"])):
            self._colour(row["tenant"])
        table = self.query_one("#tenants", DataTable)
        at = self.selected()
        table.clear()
        rows = self._rows(sample)
        for row in rows:
            table.add_row(*self._cells(row), key=row["tenant"])
        names = [row["tenant"] for row in rows]
        if at in names:
            table.move_cursor(row=names.index(at), animate=False)
        self.query_one("#head", Static).update(self._head(sample, len(rows)))
        self.query_one("#words", Static).update(Text("\n".join(sample.lacks), style="#f5813a"))

    def _cells(self, row: dict[str, Any]) -> list[Text]:
        name = text.cell(row["tenant"])
        room = self._layout.tenant_width - 2
        shown = name if len(name) <= room else name[: room - 1] + "…"
        cells = [Text.assemble(("▌", self._colour(row["tenant"])), (shown, "bold"))]
        for column in self._layout.columns:
            said = column.cell(row)
            style = "dim" if said in ("-", "0") else "bold #ff8a80" if column.alarming else ""
            cells.append(Text(said, style=style, justify="right"))
        return cells

    def _head(self, sample: Sample, count: int) -> Text:
        seconds = text.duration(sample.end_ns - sample.start_ns)
        state = ("paused", "#eab530") if self.paused else ("live", "#1fc593")
        if not sample.live and not self.paused:
            state = (f"until {with_zone(sample.end_ns)}", "#9aa4b2")
        tenants = "tenant" if count == 1 else "tenants"
        by = next((c.title for c in COLUMNS if c.key == self.sorted_by), "tenant")
        wanted = f", with {self.wanted!r}" if self.wanted else ""
        rest = f"  {count} {tenants}, last {seconds}, by {by}{wanted}"
        return Text.assemble(("cotenant top  ", "bold"), state, rest)

    def selected(self) -> str | None:
        """The tenant under the cursor."""
        table = self.query_one("#tenants", DataTable)
        if not table.row_count:
            return None
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def action_sort(self, step: int) -> None:
        """Order by the next column, or the one before."""
        keys = [*(column.key for column in COLUMNS), "tenant"]
        self.sorted_by = keys[(keys.index(self.sorted_by) + step) % len(keys)]

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow while typing."""
        self.wanted = event.value

    def on_input_submitted(self) -> None:
        """Keep the filter, and go back to the table."""
        self.query_one("#filter", Input).display = bool(self.wanted)
        self.query_one("#tenants", DataTable).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter, or a click, on a tenant."""
        if event.data_table.id == "tenants" and event.row_key.value is not None:
            self.push_screen(Detail(self._source, event.row_key.value))

    def action_drill(self) -> None:
        """Show what the tenant's time goes to."""
        tenant = self.selected()
        if tenant is not None:
            self.push_screen(Detail(self._source, tenant))

    def action_sql(self) -> None:
        """Show the SQL behind the table."""
        if self._sample is not None:
            self.push_screen(Sql(self._sample.sql))

    def action_pause(self) -> None:
        """Hold still, or go on."""
        self.paused = not self.paused

    def action_window(self, factor: float) -> None:
        """Look at a longer or a shorter time."""
        seconds = min(max(self._source.seconds * factor, 2.5), 3600.0)
        self._source = replace(self._source, seconds=seconds)
        self.look()

    def action_help(self) -> None:
        """Say what the columns mean."""
        self.push_screen(Help())
