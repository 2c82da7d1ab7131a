"""What the recorder asks the helper about processes: everything, in messages of any helper."""

import json

from cotenant.agent.channel import Message
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.identity.ledger import Ledger

MESSAGE_BYTES = 1 << 18


class Asked:
    """A helper that only listens."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def ask(self, message: Message) -> None:
        self.messages.append(json.loads(json.dumps(message)))

    def hear_for(self, kind: str, number: int, seconds: float) -> bool:
        return any(m["type"] == "inspect" and m["number"] == number for m in self.messages)


def processes(helper: Asked) -> GpuProcesses:
    return GpuProcesses("seed", Ledger("node", "boot"), helper, "both", WallClock())


def test_every_pointer_that_a_process_was_handed_is_asked_about_once() -> None:
    helper = Asked()
    gpus = processes(helper)
    name = b"\xff" * 256  # Six bytes each, once encoded.
    for _ in range(2):
        for address in range(1, 348):
            fact = {"pid": 7, "process_start_ns": 3, "handle": address, "other": 12050, "rank": 2}
            gpus.handlers()["POINTER"](fact, name)
        gpus.look_up([])
    asked = [pointer for message in helper.messages for pointer in message["pointers"]]
    text = "\N{REPLACEMENT CHARACTER}" * 256
    assert asked == [[7, 3, address, text, 12050, 2] for address in range(1, 348)]
    assert max(len(json.dumps(message)) for message in helper.messages) < MESSAGE_BYTES


def test_the_files_of_every_process_with_a_context_are_asked_about() -> None:
    helper = Asked()
    gpus = processes(helper)
    for pid in range(1, 3001):
        fact = {"pid": pid, "process_start_ns": 10**18 + pid, "address": 0xC0, "other": 0}
        gpus.handlers()["CONTEXT"](
            {**fact, "cgroup_id": 5, "cgroup_v1_id": 0, "function": 151}, b""
        )
    gpus.look_up([])
    asked = [process for message in helper.messages for process in message["devices"]]
    assert asked == [[pid, 10**18 + pid] for pid in range(1, 3001)]
    # What is waited for comes last.
    numbers = [message["number"] for message in helper.messages]
    assert numbers == [0] * (len(numbers) - 1) + [1]
