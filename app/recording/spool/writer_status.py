"""The writer's status: a small file that /metrics and `narthex doctor` read."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from app.otel.export_counts import ExportCounts


class WriterStatus(Struct, frozen=True):
    """The writer's status at one moment. Counts are since the writer's start; sizes and `oldest_s` are of
    that moment.

    Unknown fields, as older versions wrote, are ignored.
    """

    at: float  # when it was written, Unix time
    pid: int
    connected: bool
    rows: int = 0
    quarantined: int = 0  # quarantined records
    unfinished_parts: int = 0  # parts whose exchange never ended, as its worker was killed
    torn_records: int = 0  # partial records at the end of a segment
    lost_content: int = 0  # rows without the content that the disk had no space for
    spool_bytes: int = 0
    segments: int = 0
    oldest_s: float = 0.0  # age of the oldest record that is not in Postgres, 0 if there is none
    last_error: str | None = None
    export: ExportCounts | None = None  # of telemetry; None if nothing is exported
    feedback: int = 0  # stored events
    matched_feedback: int = 0  # those whose target was found
    unmatched_feedback: int = 0  # those that have been waiting for theirs for minutes
    given_up_feedback: int = 0  # those that no longer wait, as their team had too many
    conflicting_feedback: int = 0  # those with the id of other feedback


def write_status(home: Path, status: WriterStatus) -> None:
    folder = home / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / "writer.json.new"
    draft.write_bytes(msgspec.json.encode(status))
    os.replace(draft, folder / "writer.json")


def read_status(home: Path) -> WriterStatus | None:
    """Returns the writer's status, or None if no writer has run here or the file is damaged."""
    try:
        return msgspec.json.decode((home / "run" / "writer.json").read_bytes(), type=WriterStatus)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
