"""The kubelet: pods that it runs, from its port or a file."""

from cotenant.identity import tenancy
from cotenant.identity.naming.resolver import Resolver
from cotenant.identity.runtimes import ContainerdSource, KubeletSource
from tests.unit.identity.runtimes.samples import IMITATED, UID, A, B, bundle, cri, pods, write


def test_the_kubelet_confirms_a_container_it_runs(tmp_path):
    write(tmp_path / "pods.json", pods(A))
    names = KubeletSource(file=tmp_path / "pods.json").lookup(IMITATED, "")

    assert names.labels == (("app", "t"), ("owner", "Job/train"))
    assert tenancy(IMITATED, names).tenant == "team-b/trainer-0"


def test_the_kubelet_says_nothing_about_a_container_it_does_not_run(tmp_path):
    write(tmp_path / "pods.json", pods(B))
    names = KubeletSource(file=tmp_path / "pods.json").lookup(IMITATED, "")

    assert (names.pod, names.labels, names.complete) == (None, (), False)


def test_a_kubelet_that_does_not_listen_is_absent():
    source = KubeletSource("http://127.0.0.1:1/pods")

    assert source.lookup(IMITATED, "") is None
    assert source.status().state == "absent"


def test_labels_of_the_kubelet_are_added_to_what_containerd_knows(tmp_path):
    path = f"/kubepods/burstable/pod{UID}/{A}"
    bundle(tmp_path / "ctrd", "k8s.io", A, path, **cri())
    write(tmp_path / "pods.json", pods(A))
    resolver = Resolver(
        [ContainerdSource(tmp_path / "ctrd"), KubeletSource(file=tmp_path / "pods.json")]
    )
    names = resolver.lookup(IMITATED, path)

    assert names.complete
    assert names.label("app") == "t"
