"""Every kernel hook, as data: which program sits on it, and what is lost without it.

A family's programs are one object. A hook that this kernel does not have, or whose program needs
a field that its BTF lacks, is left out with a message unless it is required; the rest goes on.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cotenant.probes.function import Function
from cotenant.probes.tables import BY_ID
from cotenant.schema.constants import KERNEL_FUNCTION_BIT, KERNEL_FUNCTION_KIND_SHIFT
from cotenant.schema.events import ENUMS, RECORDS


class KernelFamily(StrEnum):
    """Events that the kernel raises; the object's stem and the table's."""

    HOST = "host"
    IO = "io"
    NET = "net"
    TCP = "tcp"


# Everything that can be recorded.
FAMILIES: Final = ("cuda", "nccl", *KernelFamily)


@dataclass(frozen=True, slots=True)
class Hook:
    """A place in the kernel and the program that runs there."""

    family: KernelFamily
    program: str
    at: str  # A tracepoint, "tick" for a few times a second on each CPU, "start" or "stop".
    lost: str  # What cannot be told without it.
    required: bool = False  # Without it the family means nothing.
    instead_of: str = ""  # Used only where this program is refused.


HOOKS: Final = (
    Hook(KernelFamily.HOST, "host_switch", "sched_switch", "time on and off the CPU", True),
    Hook(
        KernelFamily.HOST,
        "host_switch_reading",
        "sched_switch",
        "time on and off the CPU",
        instead_of="host_switch",
    ),
    Hook(KernelFamily.HOST, "host_waking", "sched_waking", "wakeups and waits for a CPU"),
    Hook(KernelFamily.HOST, "host_wakeup_new", "sched_wakeup_new", "waits of new threads"),
    Hook(KernelFamily.HOST, "host_tick", "tick", "CPU time of threads that never pause"),
    Hook(KernelFamily.HOST, "host_say", "stop", "the last milliseconds of CPU time"),
    Hook(KernelFamily.HOST, "host_exec", "sched_process_exec", "programs started"),
    Hook(KernelFamily.HOST, "host_fork", "sched_process_fork", "processes and threads made"),
    Hook(KernelFamily.HOST, "host_exit", "sched_process_exit", "processes and threads ended"),
    Hook(KernelFamily.HOST, "host_oom_kill", "mark_victim", "kills for want of memory"),
    Hook(KernelFamily.IO, "io_complete", "block_rq_complete", "requests", True),
    Hook(KernelFamily.IO, "io_issue", "block_rq_issue", "requests", True),
    Hook(KernelFamily.IO, "io_start", "block_io_start", "time in the queue, and who read"),
    Hook(KernelFamily.IO, "io_backmerge", "block_bio_backmerge", "who joined a request"),
    Hook(KernelFamily.IO, "io_frontmerge", "block_bio_frontmerge", "who joined a request"),
    Hook(KernelFamily.IO, "io_dirty", "writeback_dirty_folio", "who dirtied what is written"),
    Hook(
        KernelFamily.IO,
        "io_forget",
        "mm_filemap_delete_from_page_cache",
        "when a page stops to be somebody's",
    ),
    Hook(KernelFamily.NET, "net_send", "sock_send_length", "bytes sent", True),
    Hook(KernelFamily.NET, "net_recv", "sock_recv_length", "bytes received", True),
    Hook(KernelFamily.NET, "net_state", "inet_sock_set_state", "connections made and taken"),
    Hook(KernelFamily.TCP, "tcp_state", "inet_sock_set_state", "changes of state, and who did it"),
    Hook(KernelFamily.TCP, "tcp_held", "start", "who uses connections that were there before"),
    Hook(KernelFamily.TCP, "tcp_retransmit", "tcp_retransmit_skb", "retransmits"),
    Hook(
        KernelFamily.TCP,
        "tcp_retransmit_sent",
        "tcp_retransmit_skb",
        "retransmits",
        instead_of="tcp_retransmit",
    ),
    Hook(KernelFamily.TCP, "tcp_retransmit_synack", "tcp_retransmit_synack", "late answers"),
    Hook(KernelFamily.TCP, "tcp_send_reset", "tcp_send_reset", "resets sent"),
    Hook(KernelFamily.TCP, "tcp_receive_reset", "tcp_receive_reset", "resets received"),
)


def hooks_of(family: KernelFamily) -> tuple[Hook, ...]:
    """The family's hooks, in the order in which they are attached."""
    return tuple(hook for hook in HOOKS if hook.family == family)


def counted(number: int) -> tuple[str, str] | None:
    """The family and the function or operation that a total of this number counts."""
    if not number & KERNEL_FUNCTION_BIT:
        function: Function | None = BY_ID.get(number)
        return (str(function.family), function.symbol) if function else None
    kind, op = divmod(number ^ KERNEL_FUNCTION_BIT, 1 << KERNEL_FUNCTION_KIND_SHIFT)
    record = RECORDS.get(kind)
    name = ENUMS[f"{record.family}_op"].get(op) if record else None
    return (record.family, name) if record and name else None
