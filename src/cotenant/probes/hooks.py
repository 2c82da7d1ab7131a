"""Loads a family's programs and attaches them to kernel hooks, as far as the kernel allows."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field

from cotenant.errors import Unsupported
from cotenant.probes import syscalls
from cotenant.probes.kernel import Hook, hooks_of
from cotenant.probes.perf import Ticks
from cotenant.probes.programs import Constants, Programs, Sizes, load_object


@dataclass(slots=True)
class Hooks:
    """What sits in the kernel, and what could not."""

    links: list[int] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # By program: what is lost, and why.

    last: list[int] = field(default_factory=list)  # Programs that have the last word.

    def close(self) -> None:
        """Take everything out again, then let those speak who were waiting for it."""
        for fd in self.links:
            os.close(fd)
        self.links.clear()
        for program in self.last:
            syscalls.run_iterator(program)


def together(families: Collection[str]) -> dict[str, dict[str, int]]:
    """Objects and their programs, where this kernel has all that these families want."""
    return {
        family: {hook.program: -1 for hook in hooks_of(family) if not hook.instead_of}
        for family in families
    }


def place(
    programs: Programs,
    families: Collection[str],
    sizes: Sizes,
    constants: Constants,
    ticks: Ticks,
) -> Hooks:
    """Attach these families; what this kernel lacks is left out, and said.

    Families whose programs are not there already are loaded as far as this kernel takes them.
    """
    placed = Hooks()
    for family in families:
        hooks = _loadable(programs, hooks_of(family), sizes, constants, placed)
        for hook in hooks:
            try:
                program = programs.programs[hook.program]
                if hook.at == "start":
                    syscalls.run_iterator(program)
                elif hook.at == "stop":
                    placed.last.append(program)
                elif hook.at == "tick":
                    placed.links += _attach_ticks(program, ticks)
                else:
                    placed.links.append(syscalls.attach_tracepoint(program))
            except OSError as error:
                _refuse(placed, hook, str(error))
    return placed


def _loadable(
    programs: Programs,
    hooks: tuple[Hook, ...],
    sizes: Sizes,
    constants: Constants,
    placed: Hooks,
) -> tuple[Hook, ...]:
    """The hooks whose programs are there together, or else those that this kernel takes."""
    first = tuple(hook for hook in hooks if not hook.instead_of)
    if all(hook.program in programs.programs for hook in first):
        return first
    taken = []
    for hook in hooks:
        if hook.instead_of and hook.instead_of not in placed.refused:
            continue
        try:
            _load(programs, (hook,), sizes, constants, trial=True)
            taken.append(hook)
            placed.refused.pop(hook.instead_of, None)
        except Unsupported as error:
            _refuse(placed, hook, str(error))
    if any(hook.required and hook.program in placed.refused for hook in hooks) or not taken:
        return ()
    _load(programs, tuple(taken), sizes, constants)
    return tuple(taken)


def _load(
    programs: Programs,
    hooks: tuple[Hook, ...],
    sizes: Sizes,
    constants: Constants,
    *,
    trial: bool = False,
) -> None:
    into = Programs(programs.method, maps=dict(programs.maps)) if trial else programs
    wanted = {hook.program: -1 for hook in hooks}
    load_object(into, hooks[0].family, wanted, sizes, constants)
    if trial:
        for name, fd in into.maps.items():
            if name not in programs.maps:
                os.close(fd)
        for fd in into.programs.values():
            os.close(fd)


def _refuse(placed: Hooks, hook: Hook, why: str) -> None:
    what = f"no {hook.family} events" if hook.required else hook.lost
    placed.refused[hook.program] = f"not recorded: {what} ({why})"


def _attach_ticks(program: int, ticks: Ticks) -> list[int]:
    """A program that runs a few times a second on each CPU."""
    if ticks.refused is not None:
        raise OSError(ticks.refused)
    return [syscalls.attach_perf(program, event, 0) for event in ticks.events]
