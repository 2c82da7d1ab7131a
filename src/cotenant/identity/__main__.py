"""``python -m cotenant.identity``: JSON lines in, one identity per line out, in order.

Each input line is ``{"input_kind": "line|path|file", "input": "..."}``. A line that is
not so is answered with ``{"error": "..."}``, and reading goes on.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from cotenant.identity.path.model import Identity
from cotenant.identity.path.parser import parse_path
from cotenant.identity.path.procfile import parse_file, parse_line

PARSERS: Final[dict[str, Callable[[str], Identity]]] = {
    "line": parse_line,
    "path": partial(parse_path, mounted=True),
    "file": parse_file,
}


def answer(text: str) -> dict[str, object]:
    """The identity that one line asks for, or what is wrong with the line."""
    try:
        request = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {"error": f"not JSON: {error}"}
    if not isinstance(request, dict):
        return {"error": "not a JSON object"}
    kind, given = request.get("input_kind"), request.get("input")
    if not isinstance(kind, str) or kind not in PARSERS:
        return {"error": "input_kind must be line, path or file"}
    if not isinstance(given, str):
        return {"error": "input must be a string"}
    return PARSERS[kind](given).as_json()


def main() -> int:
    """Answer standard input until it ends."""
    for raw in sys.stdin.buffer:
        text = raw.decode("utf-8", "surrogateescape")
        if text.strip():
            sys.stdout.write(json.dumps(answer(text)) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
