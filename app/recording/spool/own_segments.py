"""Segments of their own for records that are no exchanges: one for refusals, one for feedback."""

from collections.abc import Sequence
from pathlib import Path

from app.recording.spool.durability import Durability
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import FEEDBACK, FEEDBACK_SUFFIX, REFUSALS, REFUSALS_SUFFIX

# Kinds of records with segments of their own, by the suffixes of these, and how large such a segment gets.
_OWN_SUFFIXES = {REFUSALS: REFUSALS_SUFFIX, FEEDBACK: FEEDBACK_SUFFIX}
_OWN_SEGMENT_BYTES = 4 * 1024 * 1024


class OwnSegments:
    """The open segments of a worker, by the kind of their records."""

    def __init__(self, folder: Path, segment_bytes: int, durability: Durability) -> None:
        self._folder = folder
        self._full_bytes = min(segment_bytes, _OWN_SEGMENT_BYTES)
        self._durability = durability
        self._segments: dict[int, OpenSegment] = {}

    def append(self, kind: int, bodies: Sequence[bytes]) -> None:
        """Writes all of the records, or none: then it raises OSError."""
        segment = self._segments.get(kind)
        if segment is None:
            segment = self._segments[kind] = OpenSegment(self._folder, suffix=_OWN_SUFFIXES[kind])
            self._durability.sync_folder(self._folder)
        segment.append_all(kind, bodies)
        self._durability.mark_dirty(segment)
        if segment.size >= self._full_bytes:
            del self._segments[kind]
            segment.retire()

    def retire_all(self) -> None:
        for segment in self._segments.values():
            segment.retire()
        self._segments.clear()
