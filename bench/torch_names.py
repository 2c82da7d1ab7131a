"""A real torch process that ran before the recording: how soon is it seen, with which names?

    python bench/torch_names.py

Installs torch by its name, with the CUDA libraries that it wants (several GB), into build/torch,
once. The process imports torch and asks for the handles of 100 of the tens of thousands of kernels
of libtorch_cuda.so, as their stubs do when they are first called; where the runtime has none
without a GPU, it makes some up. Then a recording starts, and the kernels are launched by their
handles, which fails without a GPU and is a row all the same. What a kernel is called, nm and
c++filt tell.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent import ROOT, Agent, children, cpu_s

PLACE = ROOT / "build" / "torch"
LAUNCHED = 100
_CLIENT = """
import ctypes, json, sys, time
began = time.monotonic()
import torch
took = time.monotonic() - began
maps = [line.split() for line in open("/proc/self/maps")]
base = min(int(m[0].split("-")[0], 16) for m in maps if m[-1].endswith("/libtorch_cuda.so"))
runtime = ctypes.CDLL(next(m[-1] for m in maps if "/libcudart.so" in m[-1]))
places = json.loads(sys.stdin.readline())
variables = [ctypes.c_uint64.from_address(base + at) for at, _ in places]
ask = runtime["__cudaGetKernel"]
asked = [
    ask(ctypes.byref(variable), ctypes.c_void_p(base + at))
    for variable, (_, at) in zip(variables, places) if at
]
for number, variable in enumerate(variables):
    variable.value = variable.value or 0x7E0000000000 + 64 * number
handles = [variable.value for variable in variables]
print(json.dumps({"import_s": took, "asked": sorted(set(asked))}), flush=True)
sys.stdin.readline()
one = [ctypes.c_uint64(1 | 1 << 32), ctypes.c_uint64(1)]
none, nothing = ctypes.c_void_p(), ctypes.c_size_t(0)
rest = (*one, *one, none, nothing, none)
results = [runtime.cudaLaunchKernel(ctypes.c_uint64(handle), *rest) for handle in handles]
print(json.dumps({"results": sorted(set(results))}), flush=True)
sys.stdin.readline()
"""


def python() -> Path:
    """An interpreter with torch."""
    program = PLACE / "bin" / "python"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        subprocess.run([program, "-m", "pip", "install", "-q", "torch", "numpy"], check=True)
    return program


def stubs(library: Path) -> list[tuple[int, int, str]]:
    """Where stubs keep handles, where their kernels' functions are, and what they are called."""
    done = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
    words = [line.split() for line in done.stdout.splitlines()]
    functions = {w[2]: int(w[0], 16) for w in words if len(w) == 3 and w[1] in "tTwW"}
    variables = [(w[2], int(w[0], 16)) for w in words if len(w) == 3 and w[2].endswith("8__handle")]
    # As c++filt shows them: __device_stub__Z6kernelPf(float*)::__handle
    inside = (text.partition("(")[0] for text in shown(name for name, _ in variables))
    names = [text.rpartition("__device_stub_")[2] for text in inside]
    return [
        (at, functions.get(name, 0), text)
        for (_, at), name, text in zip(variables, names, shown(names), strict=True)
    ]


def shown(names: Iterable[str]) -> list[str]:
    """Names as people write them, however deep they are."""
    text = "\n".join(names)
    done = subprocess.run(["c++filt", "-r"], input=text, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def measure(program: Path, store: Path) -> dict[str, Any]:
    """One process, one recording."""
    library = next(PLACE.glob("lib*/python3*/site-packages/torch/lib/libtorch_cuda.so"))
    known = stubs(library)
    chosen = known[:: max(len(known) // LAUNCHED, 1)][:LAUNCHED]
    client = subprocess.Popen(
        [program, "-c", _CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(json.dumps([place[:2] for place in chosen]) + "\n")
    client.stdin.flush()
    imported = json.loads(client.stdout.readline())
    began = time.monotonic()
    with Agent(store, "--quiet") as agent:
        attached_s = time.monotonic() - began
        helper = children(agent.process.pid)[0]
        before = cpu_s(helper)
        client.stdin.write("\n")
        client.stdin.flush()
        said = json.loads(client.stdout.readline())
        time.sleep(3)
        naming_cpu_s = cpu_s(helper) - before
        peak_kb = _peak_kb(helper)
    client.communicate("\n")
    rows = agent.sql(
        f"select kernel_name from cuda_events where pid = {client.pid} and op = 'launch' "
        "order by timestamp_ns"
    )
    wrong = [
        (row[0], place[2]) for row, place in zip(rows, chosen, strict=False) if row[0] != place[2]
    ]
    return {
        "bench": "torch_names", "kernels": len(known), "library_mb": library.stat().st_size >> 20,
        "import_s": round(imported["import_s"], 2), "attached_s": round(attached_s, 2),
        "helper_cpu_s": round(naming_cpu_s, 2), "helper_peak_mb": peak_kb >> 10,
        "asked": imported["asked"], "results": said["results"], "launched": len(chosen),
        "rows": len(rows), "named_right": len(rows) - len(wrong), "others": wrong[:1],
    }  # fmt: skip


def _peak_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cotenant-torch-") as folder:
        print(json.dumps(measure(python(), Path(folder) / "store")))


if __name__ == "__main__":
    main()
