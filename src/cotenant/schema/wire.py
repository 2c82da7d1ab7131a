"""The layout of an event in the ring, as the BPF programs write it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a wire struct, and the column it becomes."""

    name: str
    offset: int
    type: str  # A numpy type string; "S0" is a column with no bytes on the wire.
    column: str | None  # None stays on the wire.
    maker: str | None  # How the agent makes the stored value; None copies it.
    known: int | None  # The bit of ``known`` without which the column is NULL.


@dataclass(frozen=True, slots=True)
class Record:
    """One wire struct; ``family`` is the stem of its table's name."""

    family: str
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        """The member of this name; KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.family} has no field {name}")
