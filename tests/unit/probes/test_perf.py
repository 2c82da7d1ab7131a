"""A clock on each CPU, as the kernel counts its CPUs."""

import os
import re
from pathlib import Path

from cotenant.probes.cpus import online_cpus
from cotenant.probes.perf import open_ticks


def test_the_cpus_that_run_are_those_of_proc() -> None:
    listed = re.findall(r"^processor\s*: (\d+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert online_cpus() == [int(number) for number in listed]
    assert len(online_cpus()) == os.sysconf("SC_NPROCESSORS_ONLN")


def test_there_is_a_clock_on_each_cpu_or_a_reason() -> None:
    ticks = open_ticks()
    assert (ticks.refused is None) == (len(ticks.events) == len(online_cpus()))
    links = [Path(f"/proc/self/fd/{fd}") for fd in ticks.events]
    assert [os.readlink(link) for link in links] == ["anon_inode:[perf_event]"] * len(links)
    ticks.close()
    assert not any(link.exists() for link in links)
    assert ticks.events == []
