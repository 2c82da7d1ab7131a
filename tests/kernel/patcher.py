"""A client that patches functions of its driver library in its own memory, as hooking tools do.

Its hook takes the function's place, counts its calls and answers 77, or goes on with it. Other
threads go through the functions all the while, and stand aside only while bytes change: what a
careful tool does.
"""

from pathlib import Path

from tests.kernel.conftest import Cgroup
from tests.kernel.script import Script

ANSWER = 77

_CLIENT = """
import mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
libc.mmap.argtypes = [c_void_p, ctypes.c_size_t, c_int, c_int, c_int, ctypes.c_long]
libc.mprotect.argtypes = [c_void_p, ctypes.c_size_t, c_int]
lib = ctypes.CDLL(LIBRARY)
PAGE = 4096
page = libc.mmap(None, PAGE, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
used = 0

def hook():
    # lock incq counter(%rip); mov $77,%eax; ret
    global used
    at, used = page + used, used + 32
    ctypes.memmove(at, bytes.fromhex("f048ff0510000000b84d000000c3"), 14)
    return at, c_uint64.from_address(at + 24)

def patch_bytes(size, at, to):
    if size == 5:
        return b"\\xe9" + struct.pack("i", to - at - 5)
    if size == 12:
        return b"\\x48\\xb8" + struct.pack("Q", to) + b"\\xff\\xe0"
    return b"\\x49\\xbb" + struct.pack("Q", to) + b"\\x41\\xff\\xe3"

class Gate:
    # Threads pass while it is open; who shuts it waits until nobody is inside.
    def __init__(self):
        self.inside, self.shut, self.changed = 0, False, threading.Condition()
    def __enter__(self):
        with self.changed:
            self.changed.wait_for(lambda: not self.shut)
            self.inside += 1
    def __exit__(self, *_):
        with self.changed:
            self.inside -= 1
            self.changed.notify_all()

gate = Gate()
hooks = {}

def write(at, code, how):
    # As tools do: code is writable for a while, or stays so; or it is never, to speak of.
    start = at // PAGE * PAGE
    length = (at + len(code) - start + PAGE - 1) // PAGE * PAGE
    if how == "from outside":
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(at)
            assert memory.write(code) == len(code)
        return
    assert libc.mprotect(start, length, 3 if how == "not run meanwhile" else 7) == 0
    ctypes.memmove(at, code, len(code))
    if how != "left writable":
        assert libc.mprotect(start, length, 5) == 0

def patch(name, size, how=""):
    at = ctypes.cast(getattr(lib, name), c_void_p).value
    to, counter = hook()
    if how == "going on":
        go_on(at, to)
    with gate.changed:
        gate.shut = True
        gate.changed.wait_for(lambda: not gate.inside)
        write(at, patch_bytes(size, at, to), how)
        hooks[name] = counter
        gate.shut = False
        gate.changed.notify_all()

def go_on(at, to):
    # The hook runs the function after all: first the instructions that the jump is written over.
    global used
    copy, used = page + used, used + 32
    code = ctypes.string_at(at, 10)
    if code[:2] == b"\\x81\\x3d":
        (far,) = struct.unpack_from("i", code, 2)
        code = code[:2] + struct.pack("i", far + at - copy) + code[6:]
    else:
        code = code[:6]
    back = b"\\xe9" + struct.pack("i", at + len(code) - (copy + len(code)) - 5)
    ctypes.memmove(copy, code + back, len(code) + 5)
    ctypes.memmove(to + 8, b"\\xe9" + struct.pack("i", copy - (to + 8) - 5), 5)

def change_neighbours(name):
    # As if other functions there were patched, too: what is alike becomes one mapping.
    page = ctypes.cast(getattr(lib, name), c_void_p).value // PAGE * PAGE
    for start in (page - PAGE, page + PAGE):
        assert libc.mprotect(start, PAGE, 7) == 0
        ctypes.memmove(start, ctypes.string_at(start, 1), 1)
        assert libc.mprotect(start, PAGE, 5) == 0

out = c_uint64()
ARGS = {"cuMemAlloc_v2": (byref(out), 64), "cuMemFree_v2": (c_void_p(0),),
        "cuLaunchKernel": (c_void_p(0),) + (1,) * 6 + (0, c_void_p(0), c_void_p(0), c_void_p(0))}

def call_it(name):
    with gate:
        return getattr(lib, name)(*ARGS.get(name, (c_void_p(0),) * 6))

running, through = True, [0]
def go_through(names):
    while running:
        for name in names:
            call_it(name)
            with gate.changed:
                through[0] += 1
        time.sleep(0.0005)

def run_threads(count, names):
    mine = [threading.Thread(target=go_through, args=(names,)) for _ in range(count)]
    for thread in mine:
        thread.start()
    return mine

def end(threads):
    global running
    running = False
    for thread in threads:
        thread.join()

def answers(names, times):
    # What each call answered, and how many of them its hook counted.
    before = {name: hooks[name].value for name in names}
    got = {name: [call_it(name) for _ in range(times)] for name in names}
    return {name: [got[name], hooks[name].value - before[name]] for name in names}
"""


def patcher(cgroup: Cgroup, library: Path, text: str, **environment: str) -> Script:
    """Such a client of this library, which does as it is told."""
    return Script(cgroup, _CLIENT.replace("LIBRARY", repr(str(library))) + text, **environment)
