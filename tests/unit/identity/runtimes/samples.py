"""Containers and pods that the tests ask about, and what runtimes keep on disk about them."""

import json

from cotenant.identity import parse_path

A, B = "a" * 64, "b" * 64
UID = "98005c3b-b650-4efe-8b91-2164d784397f"
IMITATED = parse_path(f"/kubepods/burstable/pod{UID}/{A}")


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def bundle(root, namespace, container, cgroups_path, **annotations):
    config = {"linux": {"cgroupsPath": cgroups_path}, "annotations": annotations}
    write(root / namespace / container / "config.json", config)


def cri(**more):
    notes = {"sandbox-name": "trainer-0", "sandbox-namespace": "team-b", "sandbox-uid": UID}
    notes |= {"container-name": "main", "container-type": "container", "image-name": "t:1"}
    return {f"io.kubernetes.cri.{key}": value for key, value in (notes | more).items()}


def pods(container):
    status = {"name": "main", "containerID": f"containerd://{container}", "image": "t:1"}
    owner = {"kind": "Job", "name": "train"}
    meta = {"name": "trainer-0", "namespace": "team-b", "uid": UID, "labels": {"app": "t"}}
    meta |= {"ownerReferences": [owner]}
    return {"items": [{"metadata": meta, "status": {"containerStatuses": [status]}}]}
