"""Named questions: SQL files whose header says what they answer and what may be set.

    -- title: Slowest CUDA calls
    -- question: In which call does each tenant wait longest inside CUDA?
    -- param: limit BIGINT = 20   how many rows to show
    -- nodes: each counted
    -- reading: What the numbers mean, and what to conclude.
    select ...

``nodes`` says how the question is put to each of many nodes; see ``engine/cuts.py``.

A question that needs the rows of other tenants has a parameter of the type TENANTS: it reads all
tenants' rows, and shows those of the tenants named.

A parameter is ``$name`` in the SQL, and is replaced by a literal: what ``--show-sql`` prints is
exactly what runs.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from cotenant.errors import QuestionError, UsageError
from cotenant.query.engine.cuts import Cut, read_cut
from cotenant.query.text.sql import quoted
from cotenant.query.text.time_syntax import duration_ns, moment_ns, period_ns

_PARAM: Final = re.compile(r"(\w+)\s+([A-Z]+)\s*=\s*('[^']*'|\S+)\s*(.*)")
_NAME: Final = re.compile(r"\$(\w+)")
_HEADER: Final = re.compile(r"--\s*(title|question|param|nodes|reading):\s*(.*)")


def _truth(text: str) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return known[text.lower()]


def _whole(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 63:
        raise ValueError
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# Type name in a header to its parser, and to its description in errors.
_TYPES: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "BIGINT": (_whole, "a whole number from 0 on"),
    "DOUBLE": (_finite, "a number"),
    "VARCHAR": (str, "a text"),
    "TENANT": (str, "the name of a tenant"),
    "BOOLEAN": (_truth, "true or false"),
    "DURATION": (duration_ns, "a duration like 90s, 5m or 2h"),
    "PERIOD": (period_ns, "a duration above zero, like 90s, 5m or 2h"),
    "TIME": (moment_ns, "a time like 2026-09-21T14:13:20"),
    "TENANTS": (_names, "names of tenants, with commas between them"),
}
_TEXTS: Final = ("VARCHAR", "TENANT")
_TENANTS: Final = "TENANTS"
_SQL_TYPES: Final = {
    "DURATION": "BIGINT",
    "PERIOD": "BIGINT",
    "TIME": "BIGINT",
    "TENANT": "VARCHAR",
    _TENANTS: "VARCHAR[]",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a question."""

    name: str
    type: str
    default: str  # As written in the header; ``null`` is no value.
    doc: str

    def read(self, text: str) -> Any:
        """Parse a value; UsageError if it is not of the type."""
        if text.lower() == "null":
            return None
        parse, kind = _TYPES[self.type]
        try:
            return parse(text.strip("'") if self.type in _TEXTS else text)
        except (ValueError, KeyError, UsageError) as error:
            raise UsageError(f"{self.name}={text}: expected {kind}") from error

    def literal(self, value: Any) -> str:
        """The value as SQL."""
        if value is None:
            return f"NULL::{_SQL_TYPES.get(self.type, self.type)}"
        if isinstance(value, tuple):
            return f"[{', '.join(quoted(name) for name in value)}]"
        if isinstance(value, bool):
            return str(value).lower()
        return quoted(value) if isinstance(value, str) else repr(value)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that has a name."""

    name: str
    title: str
    question: str
    reading: str
    params: tuple[Parameter, ...]
    sql: str
    cuts: tuple[Cut, ...] = ()  # Its way over many nodes, in steps.

    @property
    def about_others(self) -> bool:
        """Whether its answer about one tenant needs the rows of others."""
        return any(p.type == _TENANTS for p in self.params)

    def render(self, settings: Iterable[str] = (), tenants: Iterable[str] | None = None) -> str:
        """The SQL with ``name=value`` settings and defaults filled in.

        ``tenants`` fills in the parameter of type TENANTS, if there is one.
        """
        given = self._given(settings)
        values = {p.name: p.literal(p.read(given.get(p.name, p.default))) for p in self.params}
        if tenants is not None:
            chosen = tuple(sorted(tenants))
            values |= {p.name: p.literal(chosen) for p in self.params if p.type == _TENANTS}
        return _NAME.sub(lambda match: values[match[1]], self.sql)

    def named(self, settings: Iterable[str], meant: Callable[[str], Iterable[str]]) -> list[str]:
        """The settings with each TENANT resolved to its full name, as ``meant`` finds it."""
        tenants = {p.name: p for p in self.params if p.type == "TENANT"}
        given = self._given(settings)
        for name, text in given.items():
            if name in tenants and (value := tenants[name].read(text)) is not None:
                found = sorted(meant(value))
                if len(found) != 1:
                    raise UsageError(f"{name}={text} is ambiguous: {', '.join(found)}; name one")
                given[name] = found[0]
        return [f"{name}={text}" for name, text in given.items()]

    def _given(self, settings: Iterable[str]) -> dict[str, str]:
        known = [p.name for p in self.params]
        given: dict[str, str] = {}
        for setting in settings:
            name, equals, value = setting.partition("=")
            if not equals:
                raise UsageError(f"{setting!r} is not a parameter; write name=value")
            if name not in known:
                what = f"it has {', '.join(known)}" if known else "it has no parameters"
                raise UsageError(f"{self.name} has no parameter {name}; {what}")
            given[name] = value
        return given


def read_question(name: str, text: str) -> Question:
    """A question from its file."""
    keys = ("title", "question", "param", "nodes", "reading")
    fields: dict[str, list[str]] = {key: [] for key in keys}
    lines = text.splitlines()
    key = ""
    while lines and lines[0].startswith("--"):
        line = lines.pop(0)
        if match := _HEADER.match(line):
            key = match[1]
            fields[key].append(match[2].strip())
        elif key:
            fields[key][-1] += " " + line.removeprefix("--").strip()
    params = []
    for text_of in fields["param"]:
        match = _PARAM.fullmatch(text_of)
        if not match or match[2] not in _TYPES:
            raise QuestionError(f"{name}.sql: cannot parse the parameter: {text_of}")
        params.append(Parameter(*match.groups()))
    return Question(
        name=name,
        title=" ".join(fields["title"]),
        question=" ".join(fields["question"]),
        reading=" ".join(fields["reading"]),
        params=tuple(params),
        sql="\n".join(lines).strip().rstrip(";"),
        cuts=tuple(map(read_cut, fields["nodes"])),
    )


@cache
def questions() -> dict[str, Question]:
    """Every question there is, by name."""
    files = sorted(Path(__file__).parent.glob("*.sql"))
    return {file.stem: read_question(file.stem, file.read_text("utf-8")) for file in files}


def find(name: str) -> Question:
    """The question of this name; UsageError with the nearest names if there is none."""
    known = questions()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "`cotenant ask` lists them"
    raise UsageError(f"no question {name}; {hint}")
