"""Exchanges as the request pipeline records them, and what a spool returns of them."""

import time
import uuid
from pathlib import Path
from typing import Any

import msgspec

from app.domain.exchange import Exchange
from app.domain.uuid7 import mint
from app.recording.spool.segment_format import list_segments
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.segment_records import ExchangeRecord
from app.recording.spool.spool import Spool
from app.recording.writer.batch import fold_record
from app.store.formats.content_packing import unpack

TEAM = str(uuid.UUID(int=1))
KEY = str(uuid.UUID(int=2))


def make_exchange(**changes: Any) -> Exchange:
    """An answered chat, received now."""
    made = Exchange(
        id=mint(),
        episode_id=mint(),
        route="/v1/chat/completions",
        model="qwen3-4b",
        key_id=KEY,
        team_id=TEAM,
        snapshot="0123456789abcdef",
        received_us=time.time_ns() // 1000,
        duration_us=12_345,
        streamed=False,
        status=200,
        outcome="answered",
        finish_reason="stop",
        served_provider="gpu",
        served_model="Qwen/Qwen3-4B",
        endpoint="http://10.0.0.5:8000",
    )
    return msgspec.structs.replace(made, **changes)


def spool_exchange(spool: Spool, request: bytes, response: bytes, **changes: Any) -> Exchange:
    """Puts one exchange into the spool, as the request pipeline does."""
    made = make_exchange(**changes)
    spool_record = spool.open(made.id, made.content)
    spool_record.append_request(request)
    spool_record.append_response(response)
    spool_record.close(made)
    return made


def read_records(reader: SegmentReader) -> list[ExchangeRecord]:
    """Every exchange that the segment holds now."""
    found: list[ExchangeRecord] = []
    while batch := reader.read(100):
        found += [each for each in batch if isinstance(each, ExchangeRecord)]
    return found


def record_content(reader: SegmentReader, segment_record: ExchangeRecord) -> tuple[str, str, bytes | None, bytes | None]:
    """Id, policy, request and response, as the admin API shows them."""
    id, policy, request, response = fold_record(reader, segment_record).content
    return id, policy, None if request is None else unpack(request), None if response is None else unpack(response)


def read_folder(folder: Path) -> list[tuple[str, str, bytes | None, bytes | None]]:
    """The contents of all segments of a spool, the oldest first."""
    found: list[tuple[str, str, bytes | None, bytes | None]] = []
    for each in sorted(list_segments(folder)):
        reader = SegmentReader(Path(each.path), 0)
        found += [record_content(reader, ended) for ended in read_records(reader)]
        reader.close()
    return found
