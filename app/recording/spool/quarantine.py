"""Quarantine: records that cannot be stored, kept byte for byte for a person to look at."""

import os
from pathlib import Path

import msgspec

from app.recording.spool.segment_reader import SegmentReader

QUARANTINE_SUFFIX = ".bad"
COPY_BYTES = 1024 * 1024


class QuarantineFailed(Exception):
    """A record could not be written to quarantine, so its segment must wait; other segments continue."""

    def __init__(self, segment: str, error: OSError) -> None:
        super().__init__(f"A record of the segment {segment} could not be quarantined: {error}")
        self.segment = segment


def quarantine_record(folder: Path, reader: SegmentReader, ranges: list[tuple[int, int]], reason: str) -> bool:
    """Copy the bytes of `ranges` to a file, after one line of JSON that describes them; the last range names the file.

    Returns False if the file exists: the same record always gives the same file. Raises QuarantineFailed.
    """
    offset, _ = ranges[-1]
    path = folder / f"{reader.name}-{offset:012d}{QUARANTINE_SUFFIX}"
    if path.exists():
        return False
    description = {"segment": reader.name, "offset": offset, "reason": reason, "ranges": ranges}
    draft = path.with_suffix(".new")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(description) + b"\n")
            for start, end in ranges:
                for at in range(start, end, COPY_BYTES):
                    file.write(reader.raw_bytes(at, min(end, at + COPY_BYTES)))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError as error:
        raise QuarantineFailed(reader.name, error) from error
    return True
