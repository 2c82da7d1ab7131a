"""``/metrics``: what Prometheus reads, and that it reads it."""

import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.store.writer import StoreWriter
from cotenant.views import metrics
from tests.lacking import lacking
from tests.serving import (
    CONTAINERS,
    LAUNCHES,
    NOW_NS,
    SECOND_NS,
    TENANTS,
    serving,
    three_tenants,
)
from tests.virtual.device import START_NS
from tests.virtual.steady_work import WORKS, begun, work
from tests.virtual.store import VirtualStore

TOKEN = "a-token-of-the-tests"


def tool(name):
    """A program that ``make setup-tests`` unpacked, or one that is installed."""
    unpacked = Path(__file__).parents[2] / "build" / "tools" / name
    return str(unpacked) if unpacked.exists() else name


@pytest.fixture
def store(tmp_path):
    return three_tenants(tmp_path / "store")


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


# Prometheus knows no order of labels; this is the one that the tests write.
LABELS = ("tenant", "family", "function", "le")


def series(reply):
    """Each sample's number, by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            rest = sorted(sample.labels.keys() - set(LABELS))
            names = [name for name in (*LABELS, *rest) if name in sample.labels]
            labels = ",".join(f'{name}="{sample.labels[name]}"' for name in names)
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def more_totals(store, tenant, count, at_ns):
    with StoreWriter(store, node="n", boot_id="b") as writer:
        row = {"timestamp_ns": at_ns, "cgroup_id": TENANTS[tenant], "family": "cuda"}
        row |= {"function": "cuLaunchKernel", "count": count, "sum_ns": 7 * count, "max_ns": 7}
        writer.append("totals", pa.Table.from_pylist([row | {"histogram": [0, 0, count]}]))
        writer.seal(at_ns)


def test_what_went_unseen_is_counted(store):
    place = {"timestamp_ns": NOW_NS + 5, "family": "nccl", "cgroup_id": TENANTS["slurm/4711"]}
    counts = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
    hole = {"reason": "over budget", "from_ns": NOW_NS, "to_ns": NOW_NS + 3 * SECOND_NS}
    with StoreWriter(store, node="n", boot_id="b") as writer:
        for unseen in (7, None):
            row = place | counts | hole | {"unseen": unseen}
            writer.append("losses", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS)
    with serving(store) as served:
        found = series(served.request("/metrics"))
    labels = '{tenant="slurm/4711",family="nccl",reason="over budget"}'
    assert found[f"cotenant_unseen_seconds_total{labels}"] == 6
    assert found[f"cotenant_unseen_events_total{labels}"] == 7


def test_a_tenant_is_told_what_may_be_its_own_and_what_nobody_can_see(store):
    nobody = CONTAINERS[0] | {"cgroup_id": 97, "tenant": "unknown", "container_id": "unknown"}
    hole = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
    hole |= {"timestamp_ns": NOW_NS, "family": "nccl", "reason": "facts lost", "unseen": None}
    seconds = {97: 3, TENANTS["ml/serve"]: 5}
    about = {"session_id": "1", "boot_id": "b", "node": "n", "kernel": "6", "hierarchy": "v2"}
    about |= {"started_ns": NOW_NS, "ended_ns": None, "wall_offset_ns": 0, "layers": "auto"}
    about |= {"attach_method": "multi"}
    refused = {"hooks_refused": {"net_recv": "bytes received (no such tracepoint)"}}
    with StoreWriter(store, node="n", boot_id="b") as writer:
        writer.replace("containers", pa.Table.from_pylist([*CONTAINERS, nobody]))
        for cgroup_id, count in seconds.items():
            when = {"from_ns": NOW_NS, "to_ns": NOW_NS + count * SECOND_NS}
            writer.append("losses", pa.Table.from_pylist([hole | {"cgroup_id": cgroup_id} | when]))
        row = about | {"notes": json.dumps(refused)}
        writer.replace("sessions", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS)
    blind = 'cotenant_incomplete_seconds{reason="facts lost"}'
    for options, longest in (((), 5), (("--tenant", "ml/train"), 3)):
        with serving(store, *options) as served:
            found = series(served.request("/metrics"))
        assert found[blind] == longest
        assert found['cotenant_unrecorded_info{what="bytes received"}'] == 1
        assert found["cotenant_missing_segments"] == 0
    for file in store.glob("nccl_events/*/*/*.parquet"):
        file.unlink()
    with serving(store) as served:
        assert series(served.request("/metrics"))["cotenant_missing_segments"] == 1


def test_what_programs_on_kernel_events_took_is_shown_by_family(store):
    about = {"session_id": "1", "boot_id": "b", "node": "n", "kernel": "6", "hierarchy": "v2"}
    about |= {"started_ns": NOW_NS, "ended_ns": None, "wall_offset_ns": 0, "layers": "auto"}
    about |= {"attach_method": "multi"}
    notes = {
        "kernel_cost": {"families": {"net": {"spent_ns": 1_500_000_000, "runs": 9}}},
        "left_to_totals": {"over_budget": {"net": 4711}, "unix_messages": 3},
    }
    with StoreWriter(store, node="n", boot_id="b") as writer:
        row = about | {"notes": json.dumps(notes)}
        writer.replace("sessions", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS)
    with serving(store) as served:
        found = series(served.request("/metrics"))
    labels = '{family="net",node="n"}'
    assert found[f"cotenant_kernel_program_seconds_total{labels}"] == 1.5
    assert found[f"cotenant_kernel_events_left_to_totals_total{labels}"] == 4711


def test_the_counters_are_the_totals(store):
    with serving(store) as served:
        reply = served.request("/metrics")
        found = series(reply)
    assert reply.headers["content-type"] == metrics.CONTENT_TYPE
    for tenant, count in LAUNCHES.items():
        assert found[f'cotenant_launches_total{{tenant="{tenant}"}}'] == count
        place = f'tenant="{tenant}",family="cuda"'
        calls = f'cotenant_calls_total{{{place},function="cuLaunchKernel"}}'
        assert found[calls] == count
        name = "cotenant_call_duration_seconds"
        assert found[f"{name}_count{{{place}}}"] == count
        assert found[f'{name}_bucket{{{place},le="4.096e-06"}}'] == 0
        assert found[f'{name}_bucket{{{place},le="1.6384e-05"}}'] == count
        assert found[f'{name}_bucket{{{place},le="+Inf"}}'] == count
    assert found['cotenant_events_lost_total{tenant="slurm/4711",family="cuda"}'] == 5


def test_no_label_is_a_process_or_a_cgroup(store):
    with serving(store) as served:
        body = served.request("/metrics").body.decode()
    assert "pid=" not in body
    assert not any(str(number) in body for number in TENANTS.values())


def test_a_counter_grows_by_what_was_written_and_never_falls(store):
    name = 'cotenant_launches_total{tenant="ml/train"}'
    with serving(store) as served:
        assert series(served.request("/metrics"))[name] == LAUNCHES["ml/train"]
        more_totals(store, "ml/train", 17, NOW_NS + 2 * SECOND_NS)
        assert series(served.request("/metrics"))[name] == LAUNCHES["ml/train"] + 17
        for folder in (store / "totals").glob("date=*"):
            shutil.rmtree(folder)
        assert series(served.request("/metrics"))[name] == LAUNCHES["ml/train"] + 17


def more_busy(store, tenant, queued_ns, second_ns, told_ns):
    with StoreWriter(store, node="n", boot_id="b") as writer:
        counts = ("overlapped_ns", "unproven_ns", "launches", "waits", "waited_ns", "copied_bytes")
        row = {"timestamp_ns": second_ns, "cgroup_id": TENANTS[tenant], "gpu": "GPU-1"}
        row |= dict.fromkeys(counts, 0) | {"queued_ns": queued_ns, "told_ns": told_ns}
        writer.append("gpu_seconds", pa.Table.from_pylist([row]))
        writer.seal(told_ns)


def test_time_queued_counts_when_it_becomes_known_however_long_ago_it_was(store):
    name = 'cotenant_gpu_queued_seconds_total{tenant="slurm/4711",UUID="GPU-1",gpu=""}'
    more_busy(store, "slurm/4711", 250_000_000, NOW_NS, NOW_NS)
    with serving(store) as served:
        assert series(served.request("/metrics"))[name] == 0.25
        more_busy(store, "slurm/4711", 500_000_000, NOW_NS - 60 * SECOND_NS, NOW_NS + SECOND_NS)
        assert series(served.request("/metrics"))[name] == 0.75
        assert series(served.request("/metrics"))[name] == 0.75


def test_tenants_beyond_the_bound_share_one_name(monkeypatch, store):
    monkeypatch.setattr(metrics, "MOST_TENANTS", 2)
    with Session(store) as session:
        text = metrics.Metrics().scrape(lambda: session).decode()
    launches = [line for line in text.splitlines() if line.startswith("cotenant_launches_total{")]
    assert len(launches) == 3
    assert f'tenant="{metrics.EVERYONE_ELSE}"' in text


def test_a_name_that_would_end_a_label_or_a_line_stays_within_it(tmp_path):
    name = 'a"} 1\ncotenant_launches_total{tenant="b\\'
    row = {"timestamp_ns": NOW_NS, "cgroup_id": 7, "family": "cuda", "function": "cuLaunchKernel"}
    row |= {"count": 3, "sum_ns": 21, "max_ns": 7, "histogram": [0, 0, 3]}
    who = {"cgroup_id": 7, "tenant": name, "container_id": "c", "node": "n", "boot_id": "b"}
    with StoreWriter(tmp_path / "store", node="n", boot_id="b") as writer:
        writer.replace("containers", pa.Table.from_pylist([who]))
        writer.append("totals", pa.Table.from_pylist([row]))
        writer.seal(NOW_NS)
    with serving(tmp_path / "store") as served:
        body = served.request("/metrics").body
    check_metrics(body)
    launches = [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == "cotenant_launches_total"
    ]
    assert launches == [({"tenant": name.replace("\n", "\\x0a")}, 3)]


def check_metrics(body):
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=body, capture_output=True,
                          timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_promtool_finds_nothing_to_say(store):
    with serving(store) as served:
        body = served.request("/metrics").body
    check_metrics(body)


CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: cotenant
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def _ask(port, query):
    url = f"http://127.0.0.1:{port}/api/v1/query?query={query}"
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.load(reply)["data"]["result"]
    except OSError:
        return []


@contextmanager
def prometheus(target_port, token_file, folder):
    """The port of a real Prometheus that scrapes this one each second."""
    program = shutil.which(tool("prometheus"))
    if program is None:
        lacking("tools", "no prometheus in build/tools; `make setup-tests` fetches it")
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(token=token_file, port=target_port))
    port = _free_port()
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield port
        assert running.poll() is None
    finally:
        running.terminate()
        running.wait(30)


def scraped(port, name, since=0.0):
    """What Prometheus has of a metric, scraped whole after this time."""
    deadline = time.monotonic() + 90
    while True:
        # A scrape has the time at which it began.
        times = [float(one["value"][1]) for one in _ask(port, f"timestamp({name})")]
        if times and min(times) > since:
            return _ask(port, name)
        assert time.monotonic() < deadline, "Prometheus has scraped nothing"
        time.sleep(0.2)


def test_a_real_prometheus_scrapes_every_tenant(store, token_file, tmp_path):
    with (
        serving(store, "--token-file", str(token_file), token=TOKEN) as served,
        prometheus(served.port, token_file, tmp_path) as port,
    ):
        found = scraped(port, "cotenant_launches_total")
    assert {one["metric"]["tenant"]: int(one["value"][1]) for one in found} == LAUNCHES


def busy_seconds(port, since):
    found = scraped(port, "cotenant_gpu_queued_seconds_total", since)
    labels = [one["metric"] for one in found]
    values = [float(one["value"][1]) for one in found]
    gpus = [of.get("UUID") or f"/dev/nvidia{of['gpu']}" for of in labels]
    who = zip((of["tenant"] for of in labels), gpus, strict=True)
    return dict(zip(who, values, strict=True))


def test_what_time_queued_grows_by_between_two_scrapes_is_that_of_the_window(token_file, tmp_path):
    recorder = begun(tmp_path / "store")
    clocks = dict.fromkeys(WORKS, SECOND_NS)
    from_ns = work(recorder, clocks, 20 * SECOND_NS)
    options = ("--token-file", str(token_file))
    with (
        serving(tmp_path / "store", *options, token=TOKEN) as served,
        prometheus(served.port, token_file, tmp_path) as port,
    ):
        before = busy_seconds(port, time.time())
        to_ns = work(recorder, clocks, 67 * SECOND_NS)
        after = busy_seconds(port, time.time())
    recorder.finish()
    with Session(tmp_path / "store", from_ns=from_ns, to_ns=to_ns) as session:
        asked = session.ask(find("gpu_use").render()).rows()
    busy = {(row["tenant"], row["gpu"]): row["queued_ns"] / 1e9 for row in asked}
    assert busy.keys() == before.keys() == after.keys()
    assert len(busy) == len(WORKS)
    for who, seconds in busy.items():
        assert seconds > 10
        assert after[who] - before[who] == pytest.approx(seconds, abs=1), who


def _free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_bytes_are_moved_once_and_by_copies_only(tmp_path):
    store = VirtualStore(tmp_path / "store")
    counted = {"cudaMemcpy": 1_000, "cuMemcpyHtoD_v2": 1_000, "cuMemcpyPeer": 31}
    counted |= {"cuMemAlloc_v2": 1 << 30, "cuMemsetD8_v2": 77, "cudaMalloc": 1 << 30}
    for function, size in counted.items():
        row = {"timestamp_ns": START_NS, "family": "cuda", "function": function, "bytes": size}
        row |= {"count": 1, "sum_ns": 1, "max_ns": 1, "histogram": [1]}
        store.add("totals", "train", row)
    root = store.write()
    text = metrics.Metrics(raw=True).scrape(lambda: Session(root)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    moved = [s for s in families["cotenant_moved_bytes"].samples if s.name.endswith("_total")]
    assert {s.labels["function"]: s.value for s in moved} == {
        "cuMemcpyHtoD_v2": 1_000,
        "cuMemcpyPeer": 31,
    }
