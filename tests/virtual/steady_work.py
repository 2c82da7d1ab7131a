"""Four processes of three tenants on two GPUs, each with its own rhythm of work and pauses."""

from tests.serving import SECOND_NS
from tests.virtual.rings import OFFSET_NS, VirtualRecorder, call

GPUS = ("/dev/nvidia0", "/dev/nvidia1")
# Of each process: whose it is, on which GPU, and how long its work takes and pauses, in ms.
WORKS = {7: (100, 0, 31, 97), 8: (101, 0, 911, 400), 9: (101, 1, 53, 11), 10: (102, 1, 890, 13)}


def begun(place):
    """A recording of them, before any work."""
    recorder = VirtualRecorder(place)
    for pid, (cgroup, gpu, *_) in WORKS.items():
        recorder.cgroup(cgroup, f"/tenant-{cgroup}")
        recorder.opened(pid, GPUS[gpu])
    recorder.began(0)
    recorder.tell()
    return recorder


def work(recorder, clocks, until_ns):
    """Ring records of all processes until then, drained, sampled and sealed each second."""
    for now_ns in range(recorder.now_ns + SECOND_NS, until_ns + 1, SECOND_NS):
        records = []
        for pid, (cgroup, _, takes, pauses) in WORKS.items():
            while clocks[pid] + takes * 1_000_000 < now_ns:
                at, about = clocks[pid], {"pid": pid, "cgroup": cgroup, "stream": 5}
                took = takes * 1_000_000 - 3_000
                ended = at + 3_001 + took
                wait = call("cuStreamSynchronize", at + 3_001, took, seen=("spun", ended), **about)
                launch = call("cuLaunchKernel", at, 3_000, threads=64, **about)
                records += [(at + 3_000, launch), (ended - 1, wait)]
                clocks[pid] += (takes + pauses) * 1_000_000
        recorder.events.add(*(record for _, record in sorted(records)))
        recorder.cycle(now_ns)
        recorder.seal()
    return OFFSET_NS + until_ns
