"""The last check of a recording: every event is stored, shed or lost."""

from cotenant.agent.recorder.samplers.losses import Losses
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.recorder.store_sink import StoreSink


def audit(losses: Losses, sink: StoreSink, session: SessionRow) -> list[str]:
    """What does not add up, each in one line; ``session`` notes the details."""
    lines: list[str] = []
    if off := losses.imbalance():
        count = sum(map(abs, off.values()))
        lines.append(f"{count} events are unaccounted for; see notes in sessions")
        session.note(imbalance={" ".join(map(str, tally)): n for tally, n in off.items()})
    if sink.miscounted:
        lines.append(f"the store sealed {sink.miscounted:+d} rows too many")
        session.note(miscounted=sink.miscounted)
    return lines
