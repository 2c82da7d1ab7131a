"""Whoever uses a library with functions that have no probe is told of, as long as it does."""

from cotenant.agent.helper.unprobed import UnprobedFunctions
from cotenant.agent.protocol.reports import Report, Unprobed
from cotenant.probes.inodes import Inode

DRIVER, COLLECTIVES = Inode(1, 7, 0), Inode(1, 11, 0)


def test_who_maps_a_file_with_refused_functions_is_told_until_it_does_not() -> None:
    told: list[Report] = []
    mapped = {DRIVER: {"/a"}, COLLECTIVES: {"/a", "/b"}}
    functions = UnprobedFunctions(lambda inode: mapped[inode], told.append)

    def blind() -> set[tuple[str, tuple[str, ...]]]:
        assert isinstance(told[-1], Unprobed)
        return {one[:2] for one in told[-1].blind}

    functions.consider(DRIVER, {"cuInit": "odd", "cudaLaunchKernel": "odd"}, ("cuda",))
    assert told == []  # Neither is a row of its own.
    functions.consider(DRIVER, {"cuMemAlloc_v2": "left to UCX"}, ("cuda",))
    functions.consider(COLLECTIVES, {"*": "bad ELF"}, ("nccl",))
    assert blind() == {("/a", ("cuda",)), ("/a", ("nccl",)), ("/b", ("nccl",))}
    assert functions.knows(7)
    assert not functions.knows(8)
    functions.mapped(7, "/c", 5)
    assert ("/c", ("cuda",), 5) in told[-1].blind
    number = len(told)
    functions.mapped(7, "/c", 9)
    assert len(told) == number
    mapped[COLLECTIVES] = set()
    mapped[DRIVER].add("/c")
    functions.sweep()
    assert blind() == {("/a", ("cuda",)), ("/c", ("cuda",))}
    functions.consider(DRIVER, {}, ("cuda",))
    assert told[-1].blind == ()
