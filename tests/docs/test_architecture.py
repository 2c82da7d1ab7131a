"""ARCHITECTURE.md lists every folder with its own purpose, and names no path that is missing."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/cotenant"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
LISTING = re.search(r"```\n(src/cotenant/.*?)```", TEXT, re.S)
_LINE = re.compile(r"( *)(\S+)/ +(\S.*)")
_PATH = re.compile(r"`([\w.*<>{},-]+(?:/[\w.*<>{},-]*)+)")


def _listed() -> dict[Path, str]:
    """Each folder of the listing, and the purpose written beside it."""
    assert LISTING is not None
    found: dict[Path, str] = {}
    above: list[Path] = []
    for line in LISTING[1].splitlines():
        parts = _LINE.fullmatch(line)
        assert parts is not None, line
        depth = len(parts[1]) // 2
        folder = (above[depth - 1] if depth else ROOT) / parts[2]
        above[depth:] = [folder]
        found[folder] = parts[3]
    return found


def _purposes() -> dict[Path, str]:
    """Each folder below src/cotenant with Python files, and the first line of its docstring."""
    folders = {path.parent for path in PACKAGE.glob("**/*.py")}
    return {folder: _first_line(folder / "__init__.py") for folder in folders}


def _first_line(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    assert docstring, module
    return docstring.splitlines()[0]


def _exists(path: str) -> bool:
    """A path from the root of the checkout or of the package; <family> and * are any name."""
    pattern = re.sub(r"<\w+>", "*", path).rstrip("/")
    return any(True for root in (ROOT, PACKAGE) for _ in root.glob(pattern))


def _spelled_out(path: str) -> list[str]:
    """``bpf/{cuda,nccl}`` as two paths."""
    braces = re.search(r"\{([^}]*)\}", path)
    if braces is None:
        return [path]
    before, after = path[: braces.start()], path[braces.end() :]
    return [end for word in braces[1].split(",") for end in _spelled_out(before + word + after)]


def test_every_folder_is_listed_with_its_own_purpose() -> None:
    assert _listed() == _purposes()


def test_every_path_exists() -> None:
    named = [path for words in _PATH.findall(TEXT) for path in _spelled_out(words)]
    assert len(named) > 40
    assert [path for path in named if not _exists(path)] == []


def test_each_question_is_answered_by_a_path() -> None:
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", TEXT, re.M)
    assert len(rows) >= 10
    assert [question for question, answer in rows if not _PATH.search(answer)] == []
