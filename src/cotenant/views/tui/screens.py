"""What opens above the list: one tenant's time, the SQL, and what the columns mean."""

from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Static

from cotenant.errors import CotenantError
from cotenant.views import text
from cotenant.views.tui.columns import COLUMNS, short
from cotenant.views.tui.sample import Sample, SampleSource

_BACK: list[BindingType] = [
    Binding("escape", "app.pop_screen", "Back"),
    Binding("q", "app.pop_screen", "Back", show=False),
]
_NUMBER_WIDTH = 9


class Sql(ModalScreen[None]):
    """The SQL behind what is on screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_BACK,
        Binding("x", "app.pop_screen", "Back", show=False),
        Binding("c", "copy", "Copy"),
    ]

    def __init__(self, sql: str) -> None:
        super().__init__()
        self.sql = sql

    def compose(self) -> ComposeResult:
        """The text, to be read and taken along."""
        with VerticalScroll(id="sql"):
            yield Static(Text(self.sql))
        yield Footer(compact=True, show_command_palette=False)

    def action_copy(self) -> None:
        """To the terminal's clipboard, also over ssh."""
        self.app.copy_to_clipboard(self.sql)
        self.notify("copied")


class Help(ModalScreen[None]):
    """What the columns mean."""

    BINDINGS: ClassVar[list[BindingType]] = _BACK

    def compose(self) -> ComposeResult:
        """One line each."""
        columns = Table.grid(padding=(0, 2, 0, 0))
        columns.add_column(justify="right", no_wrap=True)
        for column in COLUMNS:
            columns.add_row(column.title, column.doc)
        keys = "s S sort   / filter   Enter drill down   x SQL   space pause   + - longer, shorter"
        with VerticalScroll(id="help"):
            yield Static(columns)
            yield Static(Text(f"\n{keys}"))
        yield Footer(compact=True, show_command_palette=False)


class Detail(Screen[None]):
    """Where one tenant's time goes: kernels and copies, and collectives."""

    BINDINGS: ClassVar[list[BindingType]] = [*_BACK, Binding("x", "sql", "SQL")]

    def __init__(self, source: SampleSource, tenant: str) -> None:
        super().__init__()
        self._source = source
        self._tenant = tenant
        self._samples: tuple[Sample, Sample] | None = None

    def compose(self) -> ComposeResult:
        """Two tables."""
        yield Static(Text.assemble((text.cell(self._tenant), "bold"), "  in CUDA"), id="head")
        yield DataTable(id="kernels", cursor_type="row", cell_padding=0)
        yield Static(Text("in NCCL"), id="between")
        yield DataTable(id="collectives", cursor_type="row", cell_padding=0)
        yield Static(id="words")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self._opened_width = self.app.size.width
        for name, title in (("kernels", "kernel or call"), ("collectives", "collective")):
            table = self.query_one(f"#{name}", DataTable)
            table.add_column(Text(title), width=self._name_width())
            for heading in ("calls", "time", "longest"):
                table.add_column(Text(heading, justify="right"), width=_NUMBER_WIDTH)
        self.look()
        self.set_interval(1.0, self.look)

    @work(thread=True, exclusive=True)
    def look(self) -> None:
        """Ask, away from the screen."""
        try:
            samples = self._source.detail(self._tenant)
        except CotenantError as error:
            self.app.call_from_thread(self.query_one("#words", Static).update, str(error))
        else:
            self.app.call_from_thread(self._show, samples)

    def _show(self, samples: tuple[Sample, Sample]) -> None:
        self._samples = samples
        for name, key, sample in zip(
            ("kernels", "collectives"), ("kernel_name", "op"), samples, strict=True
        ):
            table = self.query_one(f"#{name}", DataTable)
            at = table.cursor_row
            table.clear()
            for row in sample.rows:
                table.add_row(*_cells(row, key, self._name_width()))
            table.move_cursor(row=at, animate=False)
        self.query_one("#words", Static).update(Text("\n".join(samples[0].lacks)))

    def _name_width(self) -> int:
        """What three numbers leave, as the screen was when this was opened."""
        return max(self._opened_width - 1 - 3 * _NUMBER_WIDTH, 12)

    def action_sql(self) -> None:
        """The SQL of the table that has the cursor."""
        if self._samples is not None:
            nccl = self.focused is not None and self.focused.id == "collectives"
            self.app.push_screen(Sql(self._samples[nccl].sql))


def _cells(row: dict[str, Any], key: str, width: int) -> list[Text]:
    name = text.cell(row[key])
    shown = name if len(name) < width else name[: width - 2] + "…"
    times = [row["total_ns"], row["longest_ns"]]
    said = [short(row["calls"]), *("-" if ns is None else text.duration(ns) for ns in times)]
    return [Text(shown), *(Text(word, justify="right") for word in said)]
