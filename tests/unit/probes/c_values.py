"""Values of C expressions, as the compiler computes them from the headers themselves."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

BPF = Path(__file__).parents[3] / "bpf"


def header(name: str) -> Path:
    """One of ours, wherever it lies below bpf/."""
    (found,) = BPF.rglob(name)
    return found


def evaluate(place: Path, preamble: str, expressions: Iterable[str]) -> dict[str, int]:
    """Each expression's value; ``place`` is a directory to compile in."""
    wanted = list(expressions)
    prints = "".join(f'printf("%lld\\n", (long long)({text}));\n' for text in wanted)
    source = place / "values.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <stdbool.h>\n#include <linux/types.h>\n"
        f"{preamble}\nint main(void)\n{{\n{prints}return 0;\n}}\n"
    )
    program = place / "values"
    folders = [f"-I{folder}" for folder in (BPF, *BPF.rglob("*/"))]
    subprocess.run(["gcc", "-Wno-attributes", *folders, "-o", program, source], check=True)
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return dict(zip(wanted, map(int, told.split()), strict=True))
