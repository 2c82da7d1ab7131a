"""Which CPUs the host has."""

from functools import cache


@cache
def possible_cpus() -> int:
    """How many CPUs the kernel keeps values for: those that may come later included."""
    with open("/sys/devices/system/cpu/possible") as file:
        return int(file.read().strip().split("-")[-1].split(",")[-1]) + 1


def online_cpus() -> list[int]:
    """The numbers of the CPUs that run."""
    with open("/sys/devices/system/cpu/online") as file:
        text = file.read().strip()
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
