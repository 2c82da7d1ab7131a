"""Explanations: the right victim and culprit first, and silence where nothing is wrong."""

import random

import pytest

from cotenant.agent.protocol.reports import ForksWaited
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.query.engine.session import Session
from cotenant.query.findings import hangs
from cotenant.query.findings.explain import explain
from cotenant.query.findings.finding import REPORTED
from cotenant.query.questions.loader import questions
from cotenant.views import text
from tests.unit.query.conftest import NOW_NS, SECOND_NS
from tests.virtual import scenarios
from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import VirtualStore


def _explained(host, tenants=None, **options):
    with Session(host.root, **options) as session:
        return explain(session, tenants)


@pytest.mark.parametrize("scenario", scenarios.SICK, ids=lambda scenario: scenario.__name__)
def test_what_is_wrong_is_the_first_finding(tmp_path, scenario):
    seed = random.randrange(1 << 32)
    host = scenario(tmp_path / "store", seed)
    found = _explained(host).findings
    assert found, f"seed {seed}"
    first = found[0]
    assert (first.kind, tuple(first.victim.split(", ")), first.culprit) == (
        host.kind,
        host.victims,
        host.culprit,
    ), f"seed {seed}"
    assert first.share >= REPORTED
    assert first.confidence >= 0.7
    assert any(character.isdigit() for character in " ".join(first.evidence))
    assert first.next.split()[:2] == ["cotenant", "ask"]
    assert first.next.split()[2] in questions()


def test_a_healthy_host_has_no_findings(tmp_path):
    seed = random.randrange(1 << 32)
    explained = _explained(scenarios.healthy(tmp_path / "store", seed))
    assert explained.findings == (), f"seed {seed}"
    assert explained.standing.complete
    assert explained.tenants >= 4


def test_only_what_a_tenant_suffers_from_is_told_of_it(tmp_path):
    host = scenarios.straggler_rank(tmp_path / "store", 3)
    victim = host.victims[0]
    assert [f.kind for f in _explained(host, frozenset({victim})).findings] == ["straggler rank"]
    assert _explained(host, frozenset({"sys/cron"})).findings == ()


@pytest.mark.parametrize(
    ("reason", "family", "what"),
    [
        ("no room for spans", "cuda", "operations in spans"),
        ("no room for allocations", "cuda", "GPU memory"),
        ("no room for waits", "host", "who had the CPU meanwhile"),
        ("no room for totals", "cuda", "totals"),
    ],
)
def test_what_findings_are_made_from_is_what_they_lack(recorded, reason, family, what):
    recorded.losses(11, seen=7)
    recorded.seal()
    with Session(recorded.root) as session:
        whole = explain(session)
        assert whole.standing.complete
        recorded.hole(11, reason, NOW_NS, NOW_NS + SECOND_NS, family=family)
        recorded.seal()
        found = explain(session)
    (line,) = text.incompleteness(found.standing)
    assert line.startswith(f"incomplete: {what} of train missing for 1 s")
    assert found.interval == whole.interval


def _served(root):
    """A server with little work, slowed by a neighbour; and a process with three launches."""
    dice, gpu = random.Random(17), Gpu()
    serve, noisy = gpu.process("ml/serve"), gpu.process("batch/noisy", burden=1.5)

    def serving():
        for _ in range(700):
            serve.launch("decode", 1.6e6 * dice.gauss(1, 0.05))
            yield from serve.sync()
            yield from serve.sleep(dice.expovariate(1 / 30e6))
        serve.done = True

    def bursts():
        while not serve.done:
            yield from noisy.sleep(dice.expovariate(1 / 150e6))
            stop = gpu.now + dice.expovariate(1 / 250e6)
            while gpu.now < stop:
                noisy.launch("gemm", dice.uniform(1e6, 5e6))
                yield from noisy.sync()

    gpu.live(serve, serving())
    gpu.live(noisy, bursts())
    gpu.run()
    store = VirtualStore(root)
    store.process(serve)
    store.process(noisy)
    store.tenant("sys/stray", created_ns=START_NS + scenarios.SECOND)
    for launch in range(3):
        at = START_NS + 9 * scenarios.SECOND + launch * scenarios.MS
        row = {"timestamp_ns": at, "pid": 77, "op": "launch", "api": "cuLaunchKernel"}
        row |= {"kernel_name": "probe", "duration_ns": 5_000, "result": 0, "stream": 1}
        store.add("cuda_events", "sys/stray", row | {"gpu": "GPU-1"})
    store.complete("cuda")
    return store.write()


def test_a_server_with_little_work_is_told_who_slows_it_and_before_a_stray_process(tmp_path):
    root = _served(tmp_path / "store")
    with Session(root) as session:
        found = explain(session).findings
        own = explain(session, frozenset({"ml/serve"})).findings
        rows = session.ask("select * from interference where evidence = 'evidence'").rows()
    (row,) = rows
    assert (found[0].victim, found[0].culprit) == (row["victim"], row["aggressor"])
    assert [(f.victim, f.culprit) for f in own] == [("ml/serve", "batch/noisy")]
    assert own[0].base == "its time with work on the GPU"
    # The same number as the next command.
    assert own[0].next == "cotenant ask interference --tenant ml/serve"
    assert f"{row['slowdown']:.2f} times as long" in own[0].evidence[0]


@pytest.mark.parametrize("kind", scenarios.HANGS)
def test_a_hang_names_the_rank_that_broke(tmp_path, kind):
    seed = random.randrange(1 << 32)
    scenario = scenarios.Scenario(tmp_path / "store", seed)
    scenario.collectives()
    broken = scenario.dice.randrange(4)
    scenario.hang(broken, kind=kind)
    (found,) = _explained(scenario.done(None, [], None)).findings
    assert (found.culprit, found.confidence) == (
        f"job/worker-{broken} rank {broken}",
        hangs.SURE,
    ), f"seed {seed}"


def test_a_rank_whose_calls_may_be_missing_is_not_accused(tmp_path):
    scenario = scenarios.Scenario(tmp_path / "store", 13)
    scenario.collectives()
    scenario.hang(2, kind="never calls")
    gap = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
    gap |= {"from_ns": START_NS + 15 * scenarios.SECOND, "to_ns": START_NS + 90 * scenarios.SECOND}
    gap |= {"timestamp_ns": START_NS + 50 * scenarios.SECOND, "family": "nccl"}
    scenario.store.add("losses", "job/worker-2", gap | {"reason": "over budget"})
    found = _explained(scenario.done(None, [], None)).findings
    assert all(f.confidence <= hangs.UNSURE for f in found if f.culprit)


def test_a_rank_that_waits_for_another_job_of_its_own_is_not_accused(tmp_path):
    """Ranks 0 and 1 wait for 2 in one communicator, which waits for 3 in another."""
    store, waits = VirtualStore(tmp_path / "store"), {0: 77, 1: 77, 2: 88}
    for comm, ranks in ((77, (0, 1, 2)), (88, (2, 3))):
        for place, rank in enumerate(ranks):
            for turn in range(23 + (waits.get(rank) == comm)):
                at = START_NS + turn * 50 * scenarios.MS + comm
                row = {"timestamp_ns": at, "pid": 30 + rank, "op": "AllReduce", "rank": place}
                row |= {"api": "ncclAllReduce", "duration_ns": 9_000, "nranks": len(ranks)}
                row |= {"comm_hash": comm, "result": 0, "stream": comm}
                store.add("nccl_events", f"job/{rank}", row)
    for rank, comm in waits.items():
        row = {"timestamp_ns": START_NS + 40 * scenarios.SECOND, "pid": 30 + rank, "stream": comm}
        row |= {"family": "cuda", "function": "cuStreamSynchronize"}
        store.add("in_flight", f"job/{rank}", row | {"began_ns": START_NS + 2 * scenarios.SECOND})
    store.complete("nccl")
    host = scenarios.Host(store.write())
    found = {f.victim: (f.culprit, f.confidence) for f in _explained(host).findings}
    assert found == {"job/2": ("job/3 rank 1", hangs.SURE), "job/0, job/1": (None, hangs.UNSURE)}


def test_a_time_without_the_trouble_has_no_findings(tmp_path):
    host = scenarios.hung_collective(tmp_path / "store", 5)
    assert _explained(host, to_ns=START_NS + 20 * scenarios.SECOND).findings == ()


def test_a_hang_that_is_over_is_no_finding(tmp_path):
    scenario = scenarios.Scenario(tmp_path / "store", 11)
    scenario.collectives()
    scenario.hang(2)
    later = {"timestamp_ns": START_NS + 61 * scenarios.SECOND, "family": "cuda", "seen": 7}
    later |= {"stored": 7, "shed": 0, "lost": 0, "queued": 0}
    scenario.store.add("losses", "ml/train", later)
    host = scenario.done(None, [], None)
    assert _explained(host).findings == ()
    then = _explained(host, to_ns=START_NS + 60 * scenarios.SECOND).findings
    assert [f.kind for f in then] == ["hung collective"]


def test_two_tenants_that_suffer_at_the_same_time_are_not_blamed_on_each_other(tmp_path):
    scenario = scenarios.Scenario(tmp_path / "store", 7)
    scenario.well(but=("cpu", "memory"))
    scenario.cpu(starved=0.4)
    scenario.memory(leak=1 << 29)
    found = _explained(scenario.done(None, [], None)).findings
    assert {(f.kind, f.victim, f.culprit) for f in found} == {
        ("CPU starvation", "ml/train", "batch/compile"),
        ("memory leak", "ml/serve", "ml/serve"),
    }


def _locked(root, aborted):
    """A store whose recorder reported of a lock, and the finding."""
    session = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both", attaching_ns=0)
    session.started(now_ns=START_NS, offset_ns=0, method="session")
    session.forks_waited(
        ForksWaited("/batch/noisy", 77, "python3", "removed", 8.7, 3 * scenarios.SECOND, aborted)
    )
    (row,) = session.table(START_NS).to_pylist()
    store = VirtualStore(root)
    store.tenant("batch/noisy", created_ns=START_NS, cgroup_path="/batch/noisy")
    event = {"timestamp_ns": START_NS, "op": "exec", "cpu": 0, "attribution": "task"}
    store.add("host_events", "batch/noisy", event)
    store.recording(0, notes=row["notes"])
    with Session(store.write()) as found:
        (finding,) = explain(found).findings
    return finding


def test_a_lock_that_kept_all_processes_from_forking_is_a_finding(tmp_path):
    """What the recorder reports of it is what is found."""
    finding = _locked(tmp_path / "store", (39,))
    assert (finding.kind, finding.victim) == ("processes could not start", "host")
    assert finding.culprit == "batch/noisy"
    assert finding.title == "no process on the host could start another for 8.7 s"
    assert finding.evidence[0].startswith("python3 (77) of batch/noisy kept its memory locked")
    assert "its FUSE connection was aborted" in finding.evidence[1]


def test_who_held_a_lock_without_a_file_system_in_the_way_is_a_hint(tmp_path):
    finding = _locked(tmp_path / "store", ())
    assert (finding.culprit, finding.confidence) == ("batch/noisy", 0.5)
