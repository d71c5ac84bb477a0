"""The state of a spool as it is reported: how large it is, what was lost, and how long its oldest record has waited."""

import time
from pathlib import Path

from msgspec import Struct

from app.recording.spool.segment_format import HEADER, list_segments, segment_created_ms
from app.recording.spool.writer_status import read_status

WRITER_SILENT_S = 5.0


class SpoolStats(Struct, frozen=True):
    """The state of the spool. `size_bytes` and `oldest_s` are of the folder; the others count what this
    worker did.

    `oldest_s` is 0 if everything is in Postgres.
    """

    size_bytes: int
    lost_content: int
    lost_records: int
    oldest_s: float
    failed_syncs: int


def oldest_record_s(home: Path, folder: Path) -> float:
    """How long the oldest record of the spool has waited for the writer; 0 if everything is in Postgres."""
    now = time.time()
    status = read_status(home)
    segments = [each for each in list_segments(folder) if not each.is_reserve and each.size > len(HEADER)]
    if status is None:
        return now - min((segment_created_ms(each.name) for each in segments), default=now * 1000) / 1000
    if status.oldest_s:
        return status.oldest_s + now - status.at
    # Everything was in Postgres when the writer last reported. If it has been silent since, newer records are waiting.
    is_silent = now - status.at > WRITER_SILENT_S and any(each.changed_at > status.at for each in segments)
    return now - status.at if is_silent else 0.0
