"""Slurm: the job of a step, by slurmstepd's word."""

from cotenant.identity import parse_path, tenancy
from cotenant.identity.runtimes import SlurmSource, UserSource
from tests.unit.identity.runtimes.samples import write

SLUID = "s5K1KKYAYG5D00"


def slurm_host(tmp_path, job):
    step = tmp_path / "cg" / "system.slice" / "slurmstepd.scope" / job / "step_0"
    write(step / "slurm" / "cgroup.procs", "41\n")
    write(step / "user" / "task_0" / "cgroup.procs", "43\n")
    write(tmp_path / "proc" / "41" / "cmdline", "slurmstepd: [3385.0]\0")
    environ = f"SLURM_JOB_SLUID={SLUID}\0SLURM_JOB_ID=1\0SLURM_JOB_PARTITION=gpu\0"
    write(tmp_path / "proc" / "43" / "environ", environ)
    write(tmp_path / "passwd", "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n")
    users = UserSource(tmp_path / "passwd", getent=None)
    return SlurmSource((tmp_path / "cg",), users, proc=tmp_path / "proc")


def test_a_sluid_becomes_a_job_by_slurmstepds_word_not_the_tasks(tmp_path):
    path = f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0"
    identity = parse_path(path)
    names = slurm_host(tmp_path, SLUID).lookup(identity, path)

    assert names.slurm_job == "3385"
    assert tenancy(identity, names).tenant == "slurm/3385"
    assert dict(names.labels) == {"asserted.slurm.job": "1", "asserted.slurm.partition": "gpu"}
