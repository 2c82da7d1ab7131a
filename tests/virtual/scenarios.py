"""Hosts on which one known thing is wrong, beside tenants that are well."""

import random
from dataclasses import dataclass
from pathlib import Path

from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
MS = 1_000_000
HANGS = ("never calls", "never returns", "no room", "asking")


@dataclass(frozen=True)
class Host:
    """A store, and what is wrong in it."""

    root: Path
    victims: tuple[str, ...] = ()
    culprit: str | None = None
    kind: str | None = None


class Scenario:
    """What every host has: a trainer, a server, and quiet signs of life of all sorts."""

    def __init__(self, root, seed):
        self.dice = random.Random(seed)
        self.store = VirtualStore(root)
        self.length = 20 * SECOND
        self.met = 0  # When the ranks met last.
        for name in ("ml/train", "ml/serve", "sys/cron"):
            self.store.tenant(name)

    def done(self, kind, victims, culprit):
        self.store.complete("cuda", "nccl", "host", "io", "net", "tcp")
        return Host(self.store.write(), tuple(victims), culprit, kind)

    def gpu(self, burden=1.0, steps=503):
        """ml/train steps; ml/serve, in bursts, slows it by ``burden``."""
        dice, gpu = self.dice, Gpu()
        train, serve = gpu.process("ml/train"), gpu.process("ml/serve", burden)
        kernels = {f"layer_{i}": dice.uniform(3e5, 2e6) for i in range(dice.randrange(3, 6))}

        def training():
            for _ in range(steps):
                train.copy("HtoD", 1 << 18)
                for name, work in kernels.items():
                    train.launch(name, work * dice.gauss(1, 0.04))
                yield from train.sync()
                yield from train.sleep(dice.expovariate(1e-6))
            train.done = True

        def serving():
            while not train.done:
                yield from serve.sleep(dice.expovariate(1 / 200e6))
                stop = gpu.now + dice.expovariate(1 / 200e6)
                while gpu.now < stop:
                    for _ in range(dice.randrange(1, 4)):
                        serve.launch("decode", dice.uniform(1e6, 3e6))
                    yield from serve.sync()
                    yield from serve.sleep(dice.uniform(1e4, 2e5))

        gpu.live(train, training())
        gpu.live(serve, serving())
        gpu.run()
        self.store.process(train)
        self.store.process(serve)

    def collectives(self, late_rank=None, lateness=0.4, ranks=4, turns=211):
        """A job of several pods whose ranks meet; one may be late each time."""
        dice = self.dice
        now, period = 0, dice.uniform(60e6, 120e6)
        for _ in range(turns):
            arrivals = [now + period * dice.gauss(1, 0.01) for _ in range(ranks)]
            if late_rank is not None:
                arrivals[late_rank] += period * lateness * dice.uniform(0.8, 1.2)
            for rank, at in enumerate(arrivals):
                self.collective(rank, int(at), ranks)
            now = max(arrivals)
        self.met = int(now)

    def collective(self, rank, at, ranks, duration=40_000):
        row = {"timestamp_ns": START_NS + at, "pid": 3_000 + rank, "op": "AllReduce"}
        row |= {"api": "ncclAllReduce", "duration_ns": duration, "bytes": 1 << 22, "rank": rank}
        row |= {"nranks": ranks, "comm_hash": 77, "result": 0, "stream": 5}
        self.store.add("nccl_events", f"job/worker-{rank}", row)

    def cpu(self, starved=0.02, thief="batch/compile"):
        """Threads that now and then wait for a CPU; ml/train's may starve."""
        dice = self.dice
        for tenant, share in (("ml/train", starved), ("ml/serve", 0.02), ("sys/cron", 0.01)):
            tid, at = 4_000 + self.store.tenant(tenant), 0.0
            while at < self.length:
                wait = dice.uniform(1e6, 9e6)
                peer = thief if share > 0.05 and dice.random() < 0.85 else "sys/cron"
                self._host(tenant, tid, at, "runqueue", wait, peer)
                at += wait / share * dice.uniform(0.7, 1.3)
                self._host(tenant, tid, at, "switch", 1e6, peer, state="S")

    def _host(self, tenant, tid, at, op, duration, peer, **more):
        row = {"timestamp_ns": START_NS + int(at), "pid": tid, "tid": tid, "op": op}
        row |= {"duration_ns": int(duration), "cpu": 1, "peer_pid": 9, "attribution": "task"}
        peer_id = self.store.tenant(peer)
        self.store.add("host_events", tenant, row | {"peer_cgroup_id": peer_id} | more)

    def disk(self, slow=1.0):
        """ml/train reads batches; ml/checkpoint writes in bursts, which may hold reads up."""
        dice, bursts, at = self.dice, [], 0.0
        while at < self.length:
            at += dice.expovariate(1 / 1.2e9)
            ends = at + dice.uniform(3e8, 9e8)
            while at < ends:
                took = dice.uniform(8e6, 20e6)
                self._io("ml/checkpoint", at, "write", took, 1 << 20)
                bursts.append((at, at + took))
                at += took
        at = 0.0
        while at < self.length:
            took = 1.5e6 * dice.lognormvariate(0, 0.2)
            if any(a < at < b for a, b in bursts):
                took *= slow
            self._io("ml/train", at, "read", took, 1 << 17)
            at += took + dice.expovariate(1 / 3e6)

    def _io(self, tenant, at, op, took, size):
        row = {"timestamp_ns": START_NS + int(at), "pid": 5, "op": op, "duration_ns": int(took)}
        row |= {"queue_ns": int(took / 2), "error": 0, "bytes": size, "device": "vda", "sector": 1}
        self.store.add("io_events", tenant, row | {"attribution": "task"})

    def network(self, per_second=0.05, remote="10.0.0.7"):
        """Connections that now and then send a segment again; the job's may do so a lot."""
        for tenant, rate in (("job/worker-1", per_second), ("ml/serve", 0.05)):
            for second in range(self.length // SECOND):
                row = {"timestamp_ns": START_NS + second * SECOND, "op": "send", "family": "tcp"}
                row |= {"bytes": 1_000_000, "remote": f"{remote}:5001", "attribution": "task"}
                self.store.add("net_events", tenant, row)
            at = 0.0
            while (at := at + self.dice.expovariate(rate / 1e9)) < self.length:
                to = remote if self.dice.random() < 0.9 else "10.0.0.8"
                row = {"timestamp_ns": START_NS + int(at), "op": "retransmit", "rtt_ns": 300_000}
                row |= {"local_ip": "10.0.0.1", "local_port": 5_000, "remote_ip": to}
                row |= {"remote_port": 5_001, "state": "ESTABLISHED", "attribution": "socket"}
                self.store.add("tcp_events", tenant, row)

    def memory(self, leak=0, leaking=("ml/serve",)):
        """Memory that goes up and down; that of some may grow by ``leak`` bytes a second."""
        for tenant, rate in (*((tenant, leak) for tenant in leaking), ("ml/train", 0)):
            for tick in range(2 * self.length // SECOND):
                at = tick * SECOND // 2
                held = (4 << 30) + rate * tick // 2 + self.dice.randrange(64 << 20)
                row = {"timestamp_ns": START_NS + at, "gpu": "GPU-1", "bytes": held}
                self.store.add("gpu_memory", tenant, row | {"allocations": 100 + tick})

    def start(self, tenant, module_ns, init_ns=200 * MS):
        """A process that begins in the middle, loads for so long, and then launches."""
        at, pid = 2 * SECOND, 6_000 + self.store.tenant(tenant)
        self.store.tenant(tenant, created_ns=START_NS + at)
        calls = [("init", "[init]", init_ns), ("context", "[context]", 90 * MS)]
        calls += [("module", "[module]", module_ns // 7)] * 7 + [("alloc", "[alloc]", 3 * MS)]
        for op, name, duration in calls:
            self._cuda(tenant, pid, at, op, name, int(duration))
            at += int(duration) + MS
        while at < self.length:
            self._cuda(tenant, pid, at, "launch", "decode", 4_000)
            at += 40 * MS

    def _cuda(self, tenant, pid, at, op, name, duration):
        row = {"timestamp_ns": START_NS + at, "pid": pid, "op": op, "api": f"cu_{op}"}
        row |= {"kernel_name": name, "duration_ns": duration, "result": 0, "gpu": "GPU-1"}
        self.store.add("cuda_events", tenant, row | {"stream": 5})

    def hang(self, broken, ranks=4, kind=None):
        """One rank makes no further collective, or never returns from it; the others have.

        As the stand-in's ranks are seen: those that are well wait for the stream; where they wait
        for nothing, in a later call for which there is no room; or in no call, and ask again and
        again whether the stream is done.
        """
        kind = kind or self.dice.choice(HANGS)
        at = max(self.length, self.met + SECOND // 10)
        began = START_NS + at
        ahead = 1024 if kind == "no room" else 0
        for rank in range(ranks):
            for call in range(ahead + 1 if rank != broken else 0):
                self.collective(rank, at + call * 20_000, ranks, 9_000)
        since = began + (ahead + 1) * 20_000
        for look in range(3):
            for rank in range(ranks):
                row = {"timestamp_ns": began + (30 + look) * SECOND, "began_ns": since}
                row |= {"pid": 3_000 + rank, "tid": 3_000 + rank, "family": "cuda"}
                row |= {"function": "cuStreamSynchronize", "stream": 5}
                if kind == "asking":
                    asked = {"timestamp_ns": row["timestamp_ns"], "family": "cuda", "count": 97}
                    asked |= {"function": "cuStreamQuery", "sum_ns": 97_000, "max_ns": 1_000}
                    if rank != broken:
                        asked |= {"histogram": [97], "bytes": 0}
                        self.store.add("totals", f"job/worker-{rank}", asked)
                    continue
                inside = row | {"family": "nccl", "function": "ncclAllReduce", "comm_hash": 77}
                if rank == broken and kind == "never calls":
                    continue
                if rank == broken:
                    row = inside | {"began_ns": began}
                elif kind == "no room":
                    row = inside
                self.store.add("in_flight", f"job/worker-{rank}", row)

    def well(self, *, but=()):
        """Everything as it should be, but for what the scenario does itself."""
        parts = ("gpu", "collectives", "cpu", "disk", "network", "memory")
        for part in parts:
            if part not in but:
                getattr(self, part)()
        if "start" not in but:
            self.start("ml/new", 300 * MS)


def noisy_neighbour(root, seed):
    s = Scenario(root, seed)
    s.well(but=("gpu",))
    s.gpu(burden=s.dice.uniform(1.4, 2.2), steps=1_103)
    return s.done("noisy neighbour", ["ml/train"], "ml/serve")


def straggler_rank(root, seed):
    s = Scenario(root, seed)
    s.well(but=("collectives",))
    late = s.dice.randrange(4)
    s.collectives(late, s.dice.uniform(0.25, 0.6))
    others = [f"job/worker-{rank}" for rank in range(4) if rank != late]
    return s.done("straggler rank", others, f"job/worker-{late} rank {late}")


def cpu_starved_loader(root, seed):
    s = Scenario(root, seed)
    s.well(but=("cpu",))
    s.cpu(starved=s.dice.uniform(0.25, 0.6))
    return s.done("CPU starvation", ["ml/train"], "batch/compile")


def checkpoint_on_a_shared_disk(root, seed):
    s = Scenario(root, seed)
    s.well(but=("disk",))
    s.disk(slow=s.dice.uniform(4, 12))
    return s.done("shared disk", ["ml/train"], "ml/checkpoint")


def lossy_link(root, seed):
    s = Scenario(root, seed)
    s.well(but=("network",))
    s.network(per_second=s.dice.uniform(15, 60))
    return s.done("lossy link", ["job/worker-1"], "the link to 10.0.0.7")


def memory_leak(root, seed):
    s = Scenario(root, seed)
    s.well(but=("memory",))
    s.memory(leak=s.dice.randrange(256 << 20, 1 << 30))
    return s.done("memory leak", ["ml/serve"], "ml/serve")


def cold_start(root, seed):
    s = Scenario(root, seed)
    s.well(but=("start",))
    s.start("ml/new", s.dice.randrange(5, 12) * SECOND)
    return s.done("cold start", ["ml/new"], "ml/new")


def hung_collective(root, seed):
    s = Scenario(root, seed)
    s.well()
    broken = s.dice.randrange(4)
    s.hang(broken)
    others = [f"job/worker-{rank}" for rank in range(4) if rank != broken]
    return s.done("hung collective", others, f"job/worker-{broken} rank {broken}")


def healthy(root, seed):
    s = Scenario(root, seed)
    s.well()
    return s.done(None, [], None)


SICK = (
    noisy_neighbour,
    straggler_rank,
    cpu_starved_loader,
    checkpoint_on_a_shared_disk,
    lossy_link,
    memory_leak,
    cold_start,
    hung_collective,
)
