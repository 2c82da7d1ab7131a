"""Device time of an operation, where the application's own two events timed just that."""

from pathlib import Path

from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import Script, warm

PLAIN = 12
TIMED = 29  # Prime: what the scripts below time, plain ones and others.

PLAYERS = """
from ctypes import c_float, c_size_t
runtime = ctypes.CDLL("libcudart.so.12")
context, module = start()
kernel = out("cuModuleGetFunction", module, b"timed")
memory = out("cuMemAlloc_v2", c_size_t(1 << 20))
host = ctypes.create_string_buffer(1 << 20)
labels = iter(range(1001, 2000))
timed, untimed, streams = {}, [], {}
S, T = out("cuStreamCreate", 1), out("cuStreamCreate", 1)

def event(flags=0):
    return out("cuEventCreate", flags)

def mark(stream=S, name="cuEventRecord", e=None):
    e = e or event()
    call(name, e, c_void_p(stream))
    return e

def op(stream=S, name="cuLaunchKernel"):
    # Each operation is told from all others by its grid, or by its bytes.
    label = next(labels)
    call(name, kernel, label, 1, 1, 32, 1, 1, 0, c_void_p(stream), None, None)
    untimed.append(label)
    return label

def ask(a, b, name="cuEventElapsedTime", result=0):
    ms = c_float(-1)
    call("cuEventSynchronize", b)
    call(name, byref(ms), a, b, result=result)
    return ms.value

def is_timed(label, ms):
    untimed.remove(label)
    timed[label] = ms

def copied(name, *args, library=cuda):
    label = next(labels)
    untimed.append(label)
    done = getattr(library, name)(*[c_size_t(label) if a == "label" else value(a) for a in args])
    assert done == 0, (name, done)
    return label

def other_thread(work):
    found = []
    def run():
        call("cuCtxSetCurrent", context)
        found.append(work())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]

def capture(work, stream):
    call("cuStreamBeginCapture_v2", stream, 0)
    work()
    made = c_uint64()
    call("cuStreamEndCapture", stream, byref(made))
    return made.value
"""

RIGHT = """
for i in range(PLAIN):
    a = mark(name=("cuEventRecord", "cuEventRecordWithFlags")[i % 2])
    label = op()
    b = mark()
    is_timed(label, ask(a, b, ("cuEventElapsedTime", "cuEventElapsedTime_v2")[i % 2]))

# The same two events again and again; both default streams.
a, b = event(), event()
for stream, suffix in ((S, ""), (T, ""), (0, ""), (1, ""), (0, "_ptsz"), (2, "")):
    mark(stream, "cuEventRecord" + suffix, a)
    label = op(stream, "cuLaunchKernel" + suffix)
    mark(stream, "cuEventRecord" + suffix, b)
    is_timed(label, ask(a, b))

# Through the runtime: the row is the caller's.
def runtime_event():
    made = c_uint64()
    assert runtime.cudaEventCreate(byref(made)) == 0
    return made.value
a, b = runtime_event(), runtime_event()
assert runtime.cudaEventRecord(value(a), value(S)) == 0
label = copied("cudaMemsetAsync", memory, 0, "label", S, library=runtime)
assert runtime.cudaEventRecord(value(b), value(S)) == 0
ms = c_float()
assert runtime.cudaEventSynchronize(value(b)) == 0
assert runtime.cudaEventElapsedTime(byref(ms), value(a), value(b)) == 0
is_timed(label, ms.value)

# Copies and sets, also one that returns when it is done.
for name, args, stream in (
    ("cuMemcpyHtoDAsync_v2", (memory, host, "label", S), S),
    ("cuMemsetD8Async", (memory, 0, "label", S), S),
    ("cuMemcpyHtoD_v2", (memory, host, "label"), 0),
):
    a = mark(stream)
    label = copied(name, *args)
    is_timed(label, ask(a, mark(stream)))

# Two streams at once.
a, c = mark(S), mark(T)
one, two = op(S), op(T)
b, d = mark(S), mark(T)
is_timed(one, ask(a, b))
is_timed(two, ask(c, d))

# Another thread's operation, the only one.
a = mark()
label = other_thread(op)
is_timed(label, ask(a, mark()))

# Captured work does not run; a launch and a record that fail are none.
a = mark()
graph = capture(lambda: op(), S)
label = op()
is_timed(label, ask(a, mark()))
a = mark()
call("cuLaunchKernel", 0, 1, 1, 1, 32, 1, 1, 0, c_void_p(S), None, None, result=None)
label = op()
call("cuEventRecord", a, c_void_p(0x1230), result=None)
is_timed(label, ask(a, mark()))

# Too early the first time, asked three times, and by another pair, too: the first counts.
a, first = mark(), mark()
label = op()
b, last = mark(), mark()
ms = c_float()
early = call("cuEventElapsedTime", byref(ms), a, last, result=None)
told = ask(a, last)
assert early or ms.value == told
assert [ask(a, last) for _ in range(2)] == [told] * 2
ask(first, b)
is_timed(label, told)
""".replace("PLAIN", str(PLAIN))

GRAPH = """
exec_ = out("cuGraphInstantiateWithFlags", graph, c_uint64(0))
a = mark()
call("cuGraphLaunch", exec_, c_void_p(S))
whole = ask(a, mark())
"""

TRAPS = """
# More than one.
a = mark(); op(); op(); ask(a, mark())
# None: the operation is before, after, or on another stream.
op(); a = mark(); b = mark(); op(); ask(a, b)
a = mark(); op(T); ask(a, mark())
# Between events of two streams.
a = mark(S); op(S); b = mark(T); ask(a, b)
# Another thread's, on the same stream, in between.
a = mark(); op(); other_thread(op); ask(a, mark())
# The stream waits for another, or for the host.
e = mark(T); a = mark(); call("cuStreamWaitEvent", S, e, 0); op(); ask(a, mark())
@ctypes.CFUNCTYPE(None, c_void_p)
def nothing(_):
    pass
a = mark(); op(); call("cuLaunchHostFunc", S, nothing, None); ask(a, mark())
a = mark(); call("cuLaunchHostFunc", S, nothing, None); ask(a, mark())
# The default stream, for which all others wait; and which waits for them.
a = mark(); op(); copied("cuMemcpyHtoD_v2", memory, host, "label"); ask(a, mark())
a = mark(); op(); mark(0); ask(a, mark())
a = mark(0); op(0); op(S); ask(a, mark(0))
a = mark(0); op(S); ask(a, mark(0))
a = mark(0, "cuEventRecord_ptsz"); op(0, "cuLaunchKernel_ptsz"); op(0)
ask(a, mark(0, "cuEventRecord_ptsz"))
# Two threads' own default streams have one name.
a = mark(2); other_thread(lambda: op(2)); ask(a, mark(2))
# Recorded again after it.
a = mark(); op(); mark(e=a); ask(a, mark())
a = mark(); op(); b = mark(); ask(mark(), b)
# The end's record fails: its time is an older one.
b = mark(); a = mark(); op(); call("cuEventRecord", b, c_void_p(0x1230), result=None); ask(a, b)
# Destroyed, and its handle used again.
a = mark(); op(); b = mark(); call("cuEventDestroy_v2", a); c = event()
ask(mark(e=c), b)
# Never asked, made without a time, or not both recorded.
a = mark(); op(); b = mark()
a = event(2); mark(e=a); op(); b = event(2); mark(e=b); ask(a, b, result=None)
a = event(); op(); ask(a, mark(), result=None)
# A stream destroyed, and its handle used again.
old = out("cuStreamCreate", 1); a = mark(old); call("cuStreamDestroy_v2", old)
new = out("cuStreamCreate", 1); op(new); b = mark(new); ask(a, b)
# Other things that are queued.
a = mark(); op(); made = out("cuMemAllocAsync", c_size_t(4096), c_void_p(S)); ask(a, mark())
# Another thread at the same time: now and then it lets one through.
stop = []
def beside():
    call("cuCtxSetCurrent", context)
    while not stop:
        launch(kernel, S)
thread = threading.Thread(target=beside)
thread.start()
busy = {}
for _ in range(101):
    a = mark(); label = op(); b = mark(); busy[label] = ask(a, b)
stop.append(1)
thread.join()
say(timed=timed, untimed=untimed, busy=busy, whole=whole, S=S, T=T)
"""


def nanoseconds(ms: float) -> int:
    """CUDA tells milliseconds in a float; stored is the nearest nanosecond."""
    return round(ms * 1e6)


def test_gpu_ns_is_what_the_application_measured_of_that_operation_alone(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup, "libcudart.so.12")
        script = Script(cgroup, PLAYERS + RIGHT + GRAPH + TRAPS)
        said = script.heard()
        script.end()
    rows = recording.sql(
        "select coalesce(grid_x, bytes) as label, op, api, stream, gpu_ns, gpu_ns_source "
        f"from cuda_events where pid = {script.pid}"
    )
    timed = {int(label): nanoseconds(ms) for label, ms in said["timed"].items()}
    assert len(timed) == TIMED - 1
    graphs = [r for r in rows if r["op"] == "graph_launch"]
    assert [(r["gpu_ns"], r["gpu_ns_source"]) for r in graphs] == [
        (nanoseconds(said["whole"]), "elapsed")
    ]
    by_label = {r["label"]: r for r in rows if r["label"] is not None and r["label"] > 1000}
    assert {label: by_label[label]["gpu_ns"] for label in timed} == timed
    assert {by_label[label]["gpu_ns_source"] for label in timed} == {"elapsed"}
    known = {
        r["label"]: r["gpu_ns"]
        for r in rows
        if r["gpu_ns"] is not None and r["op"] != "graph_launch"
    }
    busy = {int(label): nanoseconds(ms) for label, ms in said["busy"].items()}
    assert known.items() <= {**busy, **timed}.items()
    assert known.keys() - busy.keys() == timed.keys()
    captured = set(said["untimed"]) - set(by_label)
    assert len(captured) == 1
    assert recording.sql("select count(*) as n from gpu_timings") == [{"n": len(known) + 2}]
    assert {r["stream"] for r in rows if r["api"] == "cuEventSynchronize"} >= {said["S"], said["T"]}
    assert None not in {r["stream"] for r in rows if r["api"] == "cuEventSynchronize"}
