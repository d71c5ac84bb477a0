"""The writer's status: a small file that the gateway's /metrics and `doctor` read."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct


class WriterStatus(Struct, frozen=True):
    """`at`: when it was written, Unix time. Counts are since the writer's start; sizes and `oldest_s` were so at that moment.

    `quarantined`: records set aside; `dropped_parts`: parts whose exchange never ended, as its worker was killed; `torn`: half records at
    the end of a segment; `lost_content`: rows without the content that the disk had no space for; `oldest_s`: age of the oldest
    record that is not in Postgres, 0 if there is none.
    """

    at: float
    pid: int
    connected: bool
    rows: int = 0
    quarantined: int = 0
    dropped_parts: int = 0
    torn: int = 0
    lost_content: int = 0
    spool_bytes: int = 0
    segments: int = 0
    oldest_s: float = 0.0
    last_error: str | None = None


def write_status(home: Path, status: WriterStatus) -> None:
    folder = home / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / "writer.json.new"
    draft.write_bytes(msgspec.json.encode(status))
    os.replace(draft, folder / "writer.json")


def read_status(home: Path) -> WriterStatus | None:
    """None: no writer has run here, or the file is damaged."""
    try:
        return msgspec.json.decode((home / "run" / "writer.json").read_bytes(), type=WriterStatus)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
