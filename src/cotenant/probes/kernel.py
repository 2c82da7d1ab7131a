"""Every kernel hook, as data: which program sits on it, and what is lost without it.

A family's programs are one object. A hook that this kernel does not have, or whose program needs
a field that its BTF lacks, is left out with a message unless it is required; the rest goes on.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.probes.function import Function
from cotenant.probes.tables import BY_ID
from cotenant.schema.constants import KERNEL_FUNCTION_BIT, KERNEL_FUNCTION_KIND_SHIFT
from cotenant.schema.events import ENUMS, RECORDS


@dataclass(frozen=True, slots=True)
class Hook:
    """A place in the kernel and the program that runs there."""

    family: str
    program: str
    at: str  # A tracepoint, "tick" for a few times a second on each CPU, "start" or "stop".
    lost: str  # What cannot be told without it.
    required: bool = False  # Without it the family means nothing.
    instead_of: str = ""  # Used only where this program is refused.


HOOKS: Final = (
    Hook("host", "host_switch", "sched_switch", "time on and off the CPU", True),
    Hook(
        "host",
        "host_switch_reading",
        "sched_switch",
        "time on and off the CPU",
        instead_of="host_switch",
    ),
    Hook("host", "host_migrate", "sched_migrate_task", "who had the CPU before a thread moved"),
    Hook("host", "host_waking", "sched_waking", "wakeups and waits for a CPU"),
    Hook("host", "host_wakeup_new", "sched_wakeup_new", "waits of new threads"),
    Hook("host", "host_tick", "tick", "CPU time of threads that never pause"),
    Hook("host", "host_say", "stop", "the last milliseconds of CPU time"),
    Hook("host", "host_exec", "sched_process_exec", "programs started"),
    Hook("host", "host_fork", "sched_process_fork", "processes and threads made"),
    Hook("host", "host_exit", "sched_process_exit", "processes and threads ended"),
    Hook("host", "host_oom_kill", "mark_victim", "kills for want of memory"),
    Hook("io", "io_complete", "block_rq_complete", "requests", True),
    Hook("io", "io_issue", "block_rq_issue", "requests", True),
    Hook("io", "io_start", "block_io_start", "time in the queue, and who read"),
    Hook("io", "io_backmerge", "block_bio_backmerge", "who merged into a request"),
    Hook("io", "io_frontmerge", "block_bio_frontmerge", "who merged into a request"),
    Hook("io", "io_dirty", "writeback_dirty_folio", "who dirtied what is written"),
    Hook(
        "io",
        "io_forget",
        "mm_filemap_delete_from_page_cache",
        "when a page leaves the page cache",
    ),
    Hook("net", "net_send", "sock_send_length", "bytes sent", True),
    Hook("net", "net_recv", "sock_recv_length", "bytes received", True),
    Hook("net", "net_state", "inet_sock_set_state", "connects and accepts"),
    Hook("net", "net_state_inside", "inet_sock_set_state", "some connects and accepts of many"),
    Hook("tcp", "tcp_state", "inet_sock_set_state", "changes of state, and who did it"),
    Hook("tcp", "tcp_state_inside", "inet_sock_set_state", "some changes of state of many"),
    Hook("tcp", "tcp_held", "start", "who uses connections that were there before"),
    Hook("tcp", "tcp_retransmit", "tcp_retransmit_skb", "retransmits"),
    Hook(
        "tcp",
        "tcp_retransmit_sent",
        "tcp_retransmit_skb",
        "retransmits",
        instead_of="tcp_retransmit",
    ),
    Hook("tcp", "tcp_retransmit_synack", "tcp_retransmit_synack", "late answers"),
    Hook("tcp", "tcp_send_reset", "tcp_send_reset", "resets sent"),
    Hook("tcp", "tcp_receive_reset", "tcp_receive_reset", "resets received"),
)


INSIDE: Final = "_inside"  # Of a program that works while the one that it is called after cannot.


def hooks_of(family: str) -> tuple[Hook, ...]:
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


def kernel_function(family: str, op: str) -> int:
    """The number of the totals that count this operation."""
    kind = next(kind for kind, record in RECORDS.items() if record.family == family)
    number = next(number for number, name in ENUMS[f"{family}_op"].items() if name == op)
    return KERNEL_FUNCTION_BIT | kind << KERNEL_FUNCTION_KIND_SHIFT | number
