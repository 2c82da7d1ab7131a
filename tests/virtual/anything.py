"""Small stores of random tenants that do a little of everything, as the kernel would have it.

Half of them have two recordings.
"""

import random
from collections import Counter

from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
MS = 1_000_000
CPUS = 2
LENGTH = 4 * SECOND
LATER = 1_800 * SECOND  # When the second recording began, if there is one.


def _work(dice, store, names):
    """Steps of a few kernels on one or two GPUs, that others may slow."""
    for place in range(dice.randrange(1, 3)):
        gpu = Gpu()
        processes = [gpu.process(name, dice.choice((1.0, 1.0, 1.6))) for name in names]

        def life(process):
            while process.gpu.now < LENGTH - SECOND // 2:
                for kernel in range(dice.randrange(1, 4)):
                    process.launch(f"kernel_{kernel}", (kernel + 1) * dice.uniform(2e6, 9e6))
                if dice.random() < 0.3:
                    process.copy(dice.choice(("HtoD", "DtoH")), dice.randrange(1, 1 << 22))
                if dice.random() < 0.9:
                    yield from process.sync()
                yield from process.sleep(dice.expovariate(1 / 40e6))

        for process in processes:
            gpu.live(process, life(process))
        gpu.run(LENGTH)
        for process in processes:
            for row in process.rows:
                shifted = row | {"pid": row["pid"] + 100 * place, "gpu": f"GPU-{place}"}
                store.add("cuda_events", process.tenant, shifted)


def _host(dice, store, names):
    """Runs one after another on each CPU; who does not run and is ready waits for who does."""
    ran, waited = dict.fromkeys(names, 0), Counter()
    for cpu in range(CPUS):
        at = 0
        while at < LENGTH - SECOND // 2:
            runner, took = dice.choice(names), dice.randrange(MS, 90 * MS)
            ran[runner] += took
            for waiter in dice.sample(names, dice.randrange(len(names))):
                row = {"timestamp_ns": START_NS + at, "duration_ns": took, "op": "runqueue"}
                row |= {"pid": 50 + names.index(waiter), "tid": 50 + cpu, "cpu": cpu}
                row |= {"attribution": "task", "peer_cgroup_id": store.tenant(runner)}
                row |= {"thief_cgroup_id": store.tenant(runner), "thief_ns": took}
                store.add("host_events", waiter, row | {"weight": dice.choice((1, 1, 3))})
                waited[waiter, runner, (at + took) // SECOND] += took
            at += took + dice.randrange(20 * MS)
    for name, ns in ran.items():
        for part in range(4):
            row = {"timestamp_ns": START_NS + (part + 1) * SECOND, "sum_ns": ns // 4}
            row |= {"since_ns": START_NS + part * SECOND}
            row |= {"family": "host", "function": "oncpu", "count": 1, "max_ns": 0}
            store.add("totals", name, row | {"histogram": [0], "bytes": 0})
    for (waiter, runner, second), took in waited.items():
        row = {"timestamp_ns": START_NS + (second + 1) * SECOND, "waited_ns": took}
        row |= {"since_ns": START_NS + second * SECOND, "peer_cgroup_id": store.tenant(runner)}
        store.add("cpu_contention", waiter, row)


def _rest(dice, store, names):
    for name in names:
        for _ in range(dice.randrange(12)):
            at = START_NS + dice.randrange(LENGTH)
            row = {"timestamp_ns": at, "duration_ns": dice.randrange(MS, 40 * MS), "bytes": 4096}
            io = {"op": dice.choice(("read", "write")), "device": "vda", "sector": 1, "error": 0}
            store.add("io_events", name, row | io | {"attribution": "task"})
            rank = {"op": "AllReduce", "api": "ncclAllReduce", "rank": names.index(name)}
            rank |= {"nranks": len(names), "comm_hash": 7, "result": 0, "stream": 5}
            store.add("nccl_events", name, row | rank)
            failed = {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "fails"}
            failed |= {"timestamp_ns": at, "duration_ns": 900, "stream": 7, "result": 700}
            store.add("cuda_events", name, failed)
            peer = f"10.0.0.{dice.randrange(1, 4)}"
            net = {"op": dice.choice(("send", "recv")), "family": "tcp", "remote": f"{peer}:5001"}
            store.add("net_events", name, row | net | {"attribution": "task"})
            tcp = {"op": dice.choice(("retransmit", "reset_sent", "state")), "remote_ip": peer}
            tcp |= {"timestamp_ns": at, "rtt_ns": dice.randrange(MS), "attribution": "socket"}
            tcp |= {"local_ip": "10.0.0.9", "local_port": 5000, "remote_port": 5001}
            store.add("tcp_events", name, tcp | {"state": "ESTABLISHED"})
            held = {"timestamp_ns": at, "gpu": "GPU-0", "bytes": dice.randrange(1 << 30)}
            store.add("gpu_memory", name, held | {"allocations": 3})


def anything(root, seed):
    """One such store."""
    dice, store = random.Random(seed), VirtualStore(root)
    names = [f"tenant-{i}" for i in range(dice.randrange(2, 5))]
    for name in names:
        store.tenant(name, created_ns=START_NS)
    for store.later_ns in range(0, dice.randrange(1, 3) * LATER, LATER):
        store.recording(
            store.later_ns, ended_ns=START_NS + store.later_ns + LENGTH, notes=f'{{"cpus": {CPUS}}}'
        )
        _work(dice, store, names)
        _host(dice, store, names)
        _rest(dice, store, names)
    store.complete("cuda", "host", "io", "nccl", "net", "tcp")
    return store.write()
