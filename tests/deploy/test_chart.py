"""The chart, rendered by a real helm and checked by Kubernetes' own schemas and by Prometheus."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests import daemonset
from tests.lacking import lacking

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "cotenant"
VALUES = {"default": None} | {path.stem: path for path in sorted(CHART.glob("ci/*-values.yaml"))}
VERSIONS = ("1.28", "1.32", "1.37")
MONITORS = "monitoring.coreos.com/v1"  # No part of Kubernetes: its schema is not there.


@cache
def helm() -> str:
    done = subprocess.run([ROOT / "tools" / "helm.sh"], capture_output=True, text=True, check=False)
    if done.returncode:
        lacking("tools", done.stderr.strip())
    return done.stdout.strip()


def template(*words: str, version: str = "1.32") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [helm(), "template", "cotenant", CHART, "--namespace=cotenant",
         f"--kube-version={version}", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def rendered(values: str = "default", version: str = "1.32") -> list[dict[str, Any]]:
    file = VALUES[values]
    done = template(*([f"--values={file}"] if file else []), version=version)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def one(kind: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = one("DaemonSet", documents)["spec"]["template"]["spec"]
    return spec


def test_there_are_three_other_sets_of_values() -> None:
    assert len(VALUES) == 4


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", VALUES)
def test_kubernetes_takes_what_is_rendered(values: str, version: str) -> None:
    documents = rendered(values, version)
    assert "DaemonSet" in {document["kind"] for document in documents}
    for document in documents:
        if document["apiVersion"] != MONITORS:
            kubernetes_validate.validate(document, version, strict=True)


def test_helm_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [helm(), "lint", "--strict", CHART], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        "serve.prot=1",
        "serve.port=0",
        "record.keep=week",
        "store.hostPath=var",
        "serve.rootPath=gpu",
    ],
)
def test_a_wrong_value_is_refused_by_its_name(wrong: str) -> None:
    done = template(f"--set={wrong}")
    assert done.returncode != 0
    assert re.search(r"- (serve|record|store)", done.stderr)
    assert wrong.split("=")[0].split(".")[1] in done.stderr


def test_every_value_has_a_schema() -> None:
    properties = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    for name, value in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        allowed = properties[name].get("properties")
        if isinstance(value, dict) and allowed is not None:
            assert value.keys() == allowed.keys(), name


def test_by_default_it_may_ask_the_api_server_for_nothing() -> None:
    kinds = {document["kind"] for document in rendered()}
    assert kinds == {"DaemonSet", "NetworkPolicy", "Secret", "ServiceAccount"}
    assert pod(rendered())["automountServiceAccountToken"] is False


def test_nothing_is_shipped_by_default_and_then_by_a_user_who_can_only_read() -> None:
    assert [c["name"] for c in pod(rendered())["containers"]] == ["record", "serve"]
    documents = rendered("gpu-nodes-values")
    (ship,) = [c for c in pod(documents)["containers"] if c["name"] == "ship"]
    assert "--to=s3://fleet/cotenant" in ship["args"]
    assert ship["envFrom"] == [{"secretRef": {"name": "cotenant-ship"}}]
    context = ship["securityContext"]
    assert context["runAsNonRoot"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["mountPath"]: mount for mount in ship["volumeMounts"]}
    assert mounts["/var/lib/cotenant"]["readOnly"]
    assert one("NetworkPolicy", documents)["spec"]["egress"]
    assert "egress" not in one("NetworkPolicy", rendered())["spec"]
    refused = template("--set=ship.enabled=true")
    assert "ship.to names the bucket" in refused.stderr


def test_the_page_is_served_by_a_user_who_can_only_read() -> None:
    record, serve = pod(rendered())["containers"]
    context = serve["securityContext"]
    assert context["runAsNonRoot"] is True
    assert (context["runAsUser"], context["runAsGroup"]) == (65521, 65520)
    assert context["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["mountPath"]: mount for mount in serve["volumeMounts"]}
    assert mounts.keys() == {"/var/lib/cotenant", "/tmp"}
    assert mounts["/var/lib/cotenant"]["readOnly"] is True
    node = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert node in record["env"]
    policy = one("NetworkPolicy", rendered())["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy


def test_only_gpu_nodes_are_chosen_by_values() -> None:
    documents = rendered("gpu-nodes-values")
    spec = pod(documents)
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert spec["priorityClassName"] == one("PriorityClass", documents)["metadata"]["name"]
    assert "SYS_ADMIN" in spec["containers"][0]["securityContext"]["capabilities"]["add"]


def test_the_kustomize_base_is_what_the_chart_renders() -> None:
    helm()
    done = subprocess.run(
        [ROOT / "tools" / "kustomize_base.sh", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_kustomize_takes_the_base() -> None:
    kubectl = ROOT / "build" / "tools" / "kubectl"
    if not kubectl.exists():
        lacking("tools", "no kubectl in build/tools; `make setup-tests` fetches it")
    done = subprocess.run(
        [kubectl, "kustomize", daemonset.DAEMONSET.parent],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    made = list(yaml.safe_load_all(done.stdout))
    labels = one("Namespace", made)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert pod(made) == daemonset.pod()


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_prometheus_scrapes_with_the_token_below_the_root_path(kind: str) -> None:
    documents = rendered("monitored-values")
    spec = one(kind, documents)["spec"]
    (endpoint,) = spec["podMetricsEndpoints" if kind == "PodMonitor" else "endpoints"]
    assert endpoint["path"] == "/gpu/metrics"
    assert endpoint["authorization"]["credentials"] == {
        "name": one("Secret", documents)["metadata"]["name"],
        "key": "token",
    }
    assert spec["selector"]["matchLabels"].items() <= one("DaemonSet", documents)["spec"][
        "template"]["metadata"]["labels"].items()  # fmt: skip


def test_each_alert_comes_when_it_should_and_not_before(tmp_path: Path) -> None:
    promtool = ROOT / "build" / "tools" / "promtool"
    if not promtool.exists():
        lacking("tools", "no promtool in build/tools; `make setup-tests` fetches it")
    rules = one("PrometheusRule", rendered("monitored-values"))["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    shutil.copy(Path(__file__).with_name("alerts.yaml"), tmp_path / "alerts.yaml")
    for words in (("check", "rules", "rules.yaml"), ("test", "rules", "alerts.yaml")):
        done = subprocess.run(
            [promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    tested = yaml.safe_load((tmp_path / "alerts.yaml").read_text())["tests"][0]["alert_rule_test"]
    named = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert named == {test["alertname"] for test in tested}
