"""How probes come and go: through one door, with a keeper that outlives this process."""

import time
from collections.abc import Callable, Iterable

from cotenant.agent.helper.fair_queue import outermost
from cotenant.agent.helper.keeper import Keeper
from cotenant.agent.helper.stuck_changes import StuckChange
from cotenant.agent.protocol.reports import ForksWaited, Report, Stopped, Trouble
from cotenant.errors import Unsupported
from cotenant.probes.attach import Attacher, Attachment, Method
from cotenant.probes.control import switch_off
from cotenant.probes.door import PATIENCE_S, Door
from cotenant.probes.features import unsupported
from cotenant.probes.programs import Programs, load_locks
from cotenant.probes.removals import Removals


class Attachments:
    """Everything that placing and removing probes needs."""

    def __init__(self, keeper: Keeper, report: Callable[[Report], None]) -> None:
        self._keeper = keeper
        self._report = report
        try:
            self.locks = load_locks()
        except Unsupported as error:
            raise unsupported(str(error)) from error
        keeper.look_with(self.locks)
        self.door = Door(self.locks, keeper)
        self._removals = Removals(self.door)
        self._controls = -1

    def attacher(self, method: Method, programs: Programs) -> Attacher:
        """What places probes with these programs."""
        self._controls = programs.maps["controls"]
        self._keeper.switch_with(self._controls)
        return Attacher(
            method,
            programs.programs,
            programs.maps["ended"],
            door=self.door,
            keeper=self._keeper,
            remove=self._removals.add,
        )

    def switch_off(self) -> None:
        """Record no call from now on; the probes may stay until they can go quietly."""
        switch_off(self._controls)

    def remove(self, attachments: Iterable[Attachment]) -> Stopped:
        """Remove all of these, within a bound; what stays until then is left to the keeper."""
        events = 0
        for attachment in attachments:
            if attachment.events:
                # The kernel removes them one after the other, for most of a minute.
                attachment.silence()
                events += len(attachment.events)
            else:
                self._removals.add(attachment)
        if self._removals.finish(PATIENCE_S):
            return Stopped(events)
        self._keeper.hurry()
        return Stopped(events, str(self._removals.held_up or ""))

    def poll(self) -> None:
        """Report what the keeper has seen, and whether it is gone."""
        if self._keeper.died():
            why = "the keeper died: if the helper is killed, probes go whatever is in their way"
            self._report(Trouble.by("keeper", why))
        for stuck in self._keeper.stuck():
            self._report(_waited(stuck))


def _waited(stuck: StuckChange) -> ForksWaited:
    tenant = outermost(stuck.cgroup) if stuck.cgroup else ""
    aborted = tuple(stuck.aborted)
    now = time.monotonic_ns()
    return ForksWaited(tenant, stuck.pid, stuck.comm, stuck.what, stuck.took_s, now, aborted)
