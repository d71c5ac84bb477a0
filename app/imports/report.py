"""The report of an import: what is to be done, what differs, and what could not be brought, each with its path in the source."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

# to_do: brought, and works once somebody has done something. changed: brought, and behaves differently. left_out: not brought.
NoteKind = Literal["to_do", "changed", "left_out"]


class Note(Struct, frozen=True):
    """A note about one place of the source. `path` is that place. `message` says why, and what to do instead.

    Neither repeats a value that may be secret.
    """

    kind: NoteKind
    path: str
    message: str


class Report:
    """Collects the notes, each once."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}

    @property
    def notes(self) -> Sequence[Note]:
        return tuple(self._notes)

    def to_do(self, path: str, message: str) -> None:
        self._notes[Note("to_do", path, message)] = None

    def changed(self, path: str, message: str) -> None:
        self._notes[Note("changed", path, message)] = None

    def leave_out(self, path: str, message: str) -> None:
        self._notes[Note("left_out", path, message)] = None


def paths_by_message(notes: Sequence[Note], kind: NoteKind) -> Mapping[str, Sequence[str]]:
    """The paths of a kind's notes, by what is to be said about them."""
    paths: dict[str, list[str]] = {}
    for note in notes:
        if note.kind == kind:
            paths.setdefault(note.message, []).append(note.path)
    return paths
