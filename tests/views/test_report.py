"""`cotenant export html`: one file that a colleague can open, whatever a tenant is called."""

import re
import stat

import pyarrow as pa

from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.serving import KERNELS, three_tenants
from tests.views.conftest import NOW_NS

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m'


def test_a_report_is_one_file_that_loads_and_runs_nothing(tmp_path, capsys):
    store = three_tenants(tmp_path / "three")
    output = tmp_path / "report.html"
    assert main(["export", "html", "--output", str(output), "--store", str(store)]) == 0
    out, err = capsys.readouterr()
    assert out.endswith(f" findings to {output}\n")
    assert "incomplete: 5 of 58 cuda events were lost" in err
    page = output.read_text()
    assert not re.search(r"<(script|link|iframe|img)|https?:|url\(|@import", page)
    assert "default-src &#x27;none&#x27;" in page
    assert "5 of 58 cuda events were lost" in page
    assert all(kernel.partition("<")[0] in page for kernel in KERNELS.values())
    assert stat.S_IMODE(output.stat().st_mode) == 0o600


def test_a_tenant_is_text_and_nothing_else(cotenant, store, tmp_path):
    with StoreWriter(store, node="node-b", boot_id="boot-2", gid=65534) as writer:
        who = {"cgroup_id": 7, "tenant": HOSTILE, "container_id": "c", "node": "node-b"}
        writer.replace("containers", pa.Table.from_pylist([who | {"boot_id": "boot-2"}]))
        call = {"timestamp_ns": NOW_NS, "pid": 1, "tid": 1, "cgroup_id": 7, "comm": "a"}
        call |= {"op": "launch", "api": "cuLaunchKernel", "kernel_name": HOSTILE, "weight": 1}
        writer.append("cuda_events", pa.Table.from_pylist([call | {"duration_ns": 99}]))
        writer.seal(NOW_NS)
    output = tmp_path / "report.html"
    assert cotenant("export", "html", "--output", str(output))[0] == 0
    page = output.read_text()
    assert "&lt;img src=x" in page
    assert "<img" not in page
    assert "\x1b" not in page


def test_a_report_compares_tenants(cotenant, tmp_path):
    code, _, err = cotenant("export", "html", "--tenant", "ml/train")
    assert (code, err) == (2, "cotenant: --tenant does not apply to html, which compares tenants\n")
