"""What programs are recorded with is what the tests on the running kernel use."""

from tests.kernel.conftest import cgroup, cgroups, no_probe_left, running_kernel, store

__all__ = ["cgroup", "cgroups", "no_probe_left", "running_kernel", "store"]
