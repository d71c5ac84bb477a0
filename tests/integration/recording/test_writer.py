"""The writer: records of the spool are stored in Postgres, and those that cannot be are quarantined."""

import asyncio
import dataclasses
import datetime
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain.exchange import Attempt, Exchange
from app.domain.uuid7 import mint
from app.recording.spool import quarantine
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import EXCHANGE, PART_OF_RESPONSE, list_segments, pack_exchange, pack_part
from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import read_status
from app.settings import Settings
from app.store.postgres.database import connect
from providers.canonical.chat import Usage
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain, fetch, inference_ids, running_writer, stored_content, usage_rows
from tests.support.spooled_exchanges import make_exchange, spool_exchange

DAY_US = 86_400_000_000


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database, writer_batch_ms=10, spool_reserve_bytes=64 * 1024, drain_timeout_s=GENEROUS_S)


def open_spool(settings: Settings) -> Spool:
    return Spool(settings.home / "spool", settings)


def quarantined_records(settings: Settings) -> list[dict[str, Any]]:
    """The headers of the files in quarantine."""
    return [msgspec.json.decode(path.read_bytes().split(b"\n")[0]) for path in sorted(settings.home.glob("quarantine/*.bad"))]


async def test_recorded_exchange_is_written_with_all_its_fields(settings: Settings) -> None:
    spool = open_spool(settings)
    made = spool_exchange(
        spool,
        b'{"model":"qwen3-4b"}',
        b"data: [DONE]\n\n" * 100,
        function="assistant",
        variant="terse",
        streamed=True,
        usage=Usage(11, 22, 3, 4),
        first_token_us=1234,
        attempts=(Attempt("gpu", "m", "http://a", 0, 10, 500, "EngineFailed", "no"), Attempt("gpu", "m", "http://b", 11, 20, 200)),
        dropped=("user", "store"),
        tags={"tenant": "blue"},
        end_user="u1",
        charged_input=11,
        charged_output=25,
        cost_microusd=3_000_000_000,
    )
    async with running_writer(settings):
        await wait_until(lambda: _has_rows(settings, 1))
        # The worker is still running and its segment open: writing waits for neither to end.
    (row,) = await fetch(settings.database_url, "SELECT * FROM inferences")
    assert (str(row["id"]), str(row["episode_id"]), str(row["team_id"]), str(row["key_id"])) == (
        made.id,
        made.episode_id,
        made.team_id,
        made.key_id,
    )
    assert row["received_at"].timestamp() * 1e6 == pytest.approx(made.received_us, abs=1)
    assert (row["function"], row["variant"], row["streamed"], row["status"], row["outcome"]) == (
        "assistant",
        "terse",
        True,
        200,
        "answered",
    )
    assert [row[f"{kind}_tokens"] for kind in ("input", "output", "cached", "reasoning")] == [11, 22, 3, 4]
    assert (row["charged_input"], row["charged_output"], row["cost_microusd"]) == (11, 25, 3_000_000_000)
    attempts = msgspec.json.decode(row["attempts"])
    assert [(each["endpoint"], each["status"], each["error"]) for each in attempts] == [
        ("http://a", 500, "EngineFailed"),
        ("http://b", 200, None),
    ]
    assert (row["dropped"], msgspec.json.decode(row["tags"]), row["end_user"]) == (["user", "store"], {"tenant": "blue"}, "u1")
    assert await stored_content(settings.database_url, made.id) == ("full", b'{"model":"qwen3-4b"}', b"data: [DONE]\n\n" * 100)
    spool.close()


async def _has_rows(settings: Settings, rows: int) -> bool:
    (row,) = await fetch(settings.database_url, "SELECT count(*) AS found FROM inferences")
    return row["found"] >= rows


async def test_spilled_parts_are_reassembled_and_finished_segments_removed(settings: Settings) -> None:
    settings = _with_settings(settings, spool_part_bytes=100, spool_segment_bytes=2000)
    spool = open_spool(settings)
    long = make_exchange()
    spool_record = spool.open(long.id, "full")
    spool_record.append_request(b"question " * 100)
    short: list[str] = []
    for number in range(50):
        spool_record.append_response(b"word %d " % number * 10)
        short.append(spool_exchange(spool, b"request", b"response" * 30).id)
    spool_record.close(long)
    spool.close()
    await drain(settings)
    assert await inference_ids(settings.database_url) == sorted([long.id, *short])
    response = b"".join(b"word %d " % number * 10 for number in range(50))
    assert await stored_content(settings.database_url, long.id) == ("full", b"question " * 100, response)
    assert list(list_segments(settings.home / "spool")) == []
    assert await fetch(settings.database_url, "SELECT * FROM spool_positions") == []


async def test_content_policy_is_stored_and_applied(settings: Settings) -> None:
    spool = open_spool(settings)
    none = spool_exchange(spool, b"request", b"response", content="none")
    redacted = spool_exchange(spool, b'{"user":"Jane"}', b"response", content="redacted")
    spool.close()
    await drain(settings)
    assert await stored_content(settings.database_url, none.id) == ("none", None, None)
    assert await stored_content(settings.database_url, redacted.id) == (
        "redacted",
        b'{"user":"[redacted: 4 characters]"}',
        b"[withheld: 8 bytes]",
    )


async def test_text_postgres_cannot_store_is_sanitized_and_recorded(settings: Settings) -> None:
    spool = open_spool(settings)
    made = spool_exchange(
        spool,
        b"a\0sk",
        b"\xff\0" * 300,
        message="broken \0 and \ud83d",
        end_user="\0",
        tags={"a\0": "b\0", "c": "\\u0000"},
        attempts=(Attempt("gpu", "m", "http://a", 0, 10, 500, "EngineFailed", "\0"),),
        dropped=("us\0er",),
        usage=Usage(10**15, -1, 5),
    )
    spool.close()
    status = await drain(settings)
    (row,) = await fetch(settings.database_url, "SELECT * FROM inferences")
    assert status.quarantined == 0
    assert (row["message"], row["end_user"], row["dropped"]) == ("broken  and ?", "", ["user"])
    assert msgspec.json.decode(row["tags"]) == {"a": "b", "c": "\\u0000"}
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (None, None, 5)
    assert await stored_content(settings.database_url, made.id) == ("full", b"a\0sk", b"\xff\0" * 300)


async def test_unstorable_records_are_quarantined_and_block_nothing(settings: Settings) -> None:
    spool = open_spool(settings)
    good = [spool_exchange(spool, b"request", b"response").id for _ in range(5)]
    bad = [
        spool_exchange(spool, b"request", b"response", status=70_000),  # refused by asyncpg
        spool_exchange(spool, b"request", b"response", id=good[0]),  # refused by Postgres: a duplicate
        spool_exchange(spool, b"request", b"response", id=mint(0)),  # 1970
        spool_exchange(spool, b"request", b"response", id=mint(130 * 365 * DAY_US)),  # 2100
        spool_exchange(spool, b"request", b"response", id="not-an-id"),
        spool_exchange(spool, b"request", b"response", team_id="nobody"),
        spool_exchange(spool, b"request", b"response", received_us=2**62),
    ]
    good += [spool_exchange(spool, b"request", b"response").id for _ in range(5)]
    spool.close()
    segment = OpenSegment(settings.home / "spool")
    segment.append(EXCHANGE, 0, pack_exchange(3, 0, 0) + b"\xc1\xc1\xc1")
    segment.append(77, 0, b"of a kind that is not known")
    segment.append(EXCHANGE, 0, pack_exchange(3000, 0, 0))
    segment.retire()
    status = await drain(settings)
    assert await inference_ids(settings.database_url) == sorted(good)
    assert [row[4] for row in await usage_rows(settings.database_url)] == [10]
    assert status.quarantined == len(quarantined_records(settings)) == len(bad) + 3
    assert status.rows == 10
    assert list(list_segments(settings.home / "spool")) == []
    partitions = await fetch(settings.database_url, "SELECT count(*) AS made FROM pg_inherits WHERE inhparent = 'inferences'::regclass")
    assert partitions[0]["made"] == 2  # today's and tomorrow's


async def test_usage_is_summed_by_key_hour_team_and_model(settings: Settings) -> None:
    spool = open_spool(settings)
    hour_us = 3_600_000_000
    this_us = time.time_ns() // 1000 // hour_us * hour_us
    keys = [str(uuid.UUID(int=number)) for number in (7, 8)]
    for at, key, model, changes in (
        (this_us, keys[0], "a", {"usage": Usage(10, 5, 4, 2), "charged_input": 10, "charged_output": 6, "cost_microusd": 100}),
        (this_us - 1, keys[0], "a", {"usage": Usage(), "outcome": "failed", "cost_microusd": 0}),
        (this_us, keys[0], "a", {"usage": Usage(1, None), "charged_input": 1, "charged_output": 50}),
        (this_us + 1, keys[0], "b", {"usage": Usage(10**15, 7), "charged_input": 10**15, "cost_microusd": -5}),
        (this_us, keys[1], "a", {"outcome": "disconnected", "charged_output": 3, "cost_microusd": 10**15}),
    ):
        spool_exchange(spool, b"", b"", id=mint(at), received_us=at, key_id=key.upper(), model=model, **changes)
        await drain(settings)  # each in a batch of its own
    spool.close()
    rows = [(str(row[0]), row[1].timestamp() * 1e6 - this_us, *row[3:]) for row in await usage_rows(settings.database_url)]
    assert rows == [
        (keys[0], -hour_us, "a", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (keys[0], 0, "a", 2, 0, 11, 5, 4, 2, 11, 56, 100, 1),
        (keys[0], 0, "b", 1, 0, 0, 7, 0, 0, 2**31 - 1, 0, 0, 0),
        (keys[1], 0, "a", 1, 0, 0, 0, 0, 0, 0, 3, 10**12, 0),
    ]


async def test_key_id_in_different_spellings_is_one_usage_row(settings: Settings) -> None:
    spool = open_spool(settings)
    key = "abcdefab-cdef-4bcd-8fab-cdefabcdefab"
    for spelling in (key, key.upper(), key.replace("-", "")):
        spool_exchange(spool, b"", b"", key_id=spelling, charged_input=1)
    spool.close()
    status = await drain(settings)
    assert status.quarantined == 0
    assert [row[10] for row in await usage_rows(settings.database_url)] == [3]


async def test_records_from_a_version_without_charges_are_read(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    made = make_exchange(usage=Usage(1, 2))
    fields: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(made))
    meta = msgspec.msgpack.encode(fields[: Exchange.__struct_fields__.index("charged_input")])
    segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
    segment.retire()
    await drain(settings)
    (row,) = await fetch(settings.database_url, "SELECT id::text AS id, input_tokens, charged_input, cost_microusd FROM inferences")
    assert tuple(row.values()) == (made.id, 1, 0, None)
    await usage_rows(settings.database_url)


async def test_quarantine_keeps_the_whole_record_once(settings: Settings) -> None:
    settings = _with_settings(settings, spool_part_bytes=10)
    spool = open_spool(settings)
    made = make_exchange(status=70_000)
    spool_record = spool.open(made.id, "full")
    for part in (b"the quick ", b"brown fox jumps ", b"over"):
        spool_record.append_response(part)
    spool_record.close(made)
    async with running_writer(settings):
        await wait_until(lambda: bool(quarantined_records(settings)))
    (path,) = settings.home.glob(f"quarantine/*{quarantine.QUARANTINE_SUFFIX}")
    first = path.read_bytes()
    assert made.id.encode() in first
    assert first.index(b"the quick") < first.index(b"brown fox") < first.index(b"over")
    spool.close()
    await drain(settings)  # it reads the record again: no position was committed, as no row was
    assert path.read_bytes() == first
    assert len(quarantined_records(settings)) == 1


async def test_failing_quarantine_blocks_only_its_own_segment(settings: Settings) -> None:
    quarantine_folder = settings.home / "quarantine"
    quarantine_folder.write_bytes(b"a file where the folder should be")
    blocked = open_spool(settings)
    waiting = spool_exchange(blocked, b"request", b"response")
    spool_exchange(blocked, b"request", b"response", status=70_000)
    blocked.close()
    other = open_spool(settings)
    made = [spool_exchange(other, b"request", b"response").id for _ in range(3)]
    async with running_writer(settings):
        await wait_until(lambda: _has_rows(settings, 3))
        assert await inference_ids(settings.database_url) == sorted(made)
        quarantine_folder.unlink()
        await wait_until(lambda: _has_rows(settings, 4))
    other.close()
    assert await inference_ids(settings.database_url) == sorted([waiting.id, *made])
    assert len(quarantined_records(settings)) == 1


async def test_damaged_record_is_quarantined_and_following_ones_are_written(settings: Settings) -> None:
    spool = open_spool(settings)
    made = [spool_exchange(spool, b"request", b"response" * 20) for _ in range(9)]
    spool.close()
    (segment,) = (Path(each.path) for each in list_segments(settings.home / "spool"))
    data = bytearray(segment.read_bytes())
    data[data.index(made[4].id.encode())] ^= 1
    segment.write_bytes(data[:-3])
    status = await drain(settings)
    assert await inference_ids(settings.database_url) == sorted(each.id for at, each in enumerate(made) if at not in (4, 8))
    assert (status.quarantined, status.torn_records) == (1, 1)
    assert not segment.exists()


async def test_damage_in_an_open_segment_is_skipped_after_a_moment(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    made = [make_exchange() for _ in range(3)]
    ends: list[int] = []
    for each in made:
        meta = msgspec.msgpack.encode(each)
        segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        ends.append(segment.size)
    with segment.path.open("r+b") as file:
        file.seek(ends[0] + 40)
        file.write(b"\xff\xff")
    async with running_writer(settings):
        await wait_until(lambda: _has_rows(settings, 2))
    assert await inference_ids(settings.database_url) == sorted([made[0].id, made[2].id])
    segment.retire()


async def test_orphaned_parts_of_a_killed_worker_are_dropped_and_counted(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    first = segment.append(PART_OF_RESPONSE, 0, pack_part(b"\1" * 16, 0) + b"half an")
    segment.append(PART_OF_RESPONSE, 0, pack_part(b"\1" * 16, first) + b" answer")
    segment.retire()
    status = await drain(settings)
    assert status.unfinished_parts == 2
    assert await inference_ids(settings.database_url) == []
    assert list(list_segments(settings.home / "spool")) == []


async def test_unreadable_part_loses_the_content_and_is_counted(settings: Settings) -> None:
    settings = _with_settings(settings, spool_part_bytes=10)
    spool = open_spool(settings)
    made = spool_exchange(spool, b"request", b"a very long response that is spilled")
    spool.close()
    (segment,) = (Path(each.path) for each in list_segments(settings.home / "spool"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"very")] ^= 1
    segment.write_bytes(data)
    status = await drain(settings)
    assert await stored_content(settings.database_url, made.id) == ("lost", None, None)
    assert (status.lost_content, status.quarantined) == (1, 1)


async def test_segment_of_a_later_version_is_left_alone(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    path = settings.home / "spool" / "00000000000000-0000000000000000.spool"
    path.write_bytes(b"NARTHEX-SPOOL-2\nanything")
    await drain(settings)
    assert path.read_bytes() == b"NARTHEX-SPOOL-2\nanything"


async def test_records_around_midnight_go_to_their_daily_partitions(settings: Settings) -> None:
    midnight_ms = time.time_ns() // 1_000_000 // 86_400_000 * 86_400_000
    spool = open_spool(settings)
    made = [spool_exchange(spool, b"request", b"response", id=mint(midnight_ms * 1000 + shift)) for shift in (-1000, -1, 0, 1000)]
    long_ago = spool_exchange(spool, b"request", b"response", id=mint(midnight_ms * 1000 - 9 * DAY_US))
    spool.close()
    status = await drain(settings)
    assert status.quarantined == 0
    rows = await fetch(settings.database_url, "SELECT tableoid::regclass::text AS partition, id::text AS id FROM inferences ORDER BY id")
    today = datetime.datetime.fromtimestamp(midnight_ms / 1000, datetime.UTC).date()
    yesterday, then = today - datetime.timedelta(days=1), today - datetime.timedelta(days=9)
    assert [(row["partition"], row["id"]) for row in rows] == [
        (f"inferences_{day:%Y%m%d}", each.id)
        for day, each in zip((then, yesterday, yesterday, today, today), (long_ago, *made), strict=True)
    ]


async def test_inferences_and_content_expire_by_their_own_retention(settings: Settings) -> None:
    settings = _with_settings(settings, keep_inferences_days=20, keep_content_days=5)
    spool = open_spool(settings)
    now_us = time.time_ns() // 1000
    made = {age: spool_exchange(spool, b"request", b"response", id=mint(now_us - age * DAY_US)) for age in (0, 4, 7, 19, 22)}
    spool.close()
    await drain(_with_settings(settings, keep_inferences_days=0, keep_content_days=0))
    assert len(await inference_ids(settings.database_url)) == 5
    await drain(settings)
    inferences = await fetch(settings.database_url, "SELECT id::text AS id FROM inferences")
    contents = await fetch(settings.database_url, "SELECT id::text AS id FROM inference_content")
    assert {row["id"] for row in inferences} == {made[age].id for age in (0, 4, 7, 19)}
    assert {row["id"] for row in contents} == {made[age].id for age in (0, 4)}


async def test_expired_partition_being_read_does_not_block_writing(settings: Settings) -> None:
    spool = open_spool(settings)
    spool_exchange(spool, b"request", b"response", id=mint(time.time_ns() // 1000 - 9 * DAY_US))
    spool.close()
    await drain(settings)
    reader = await connect(settings.database_url)
    await reader.execute("BEGIN")
    await reader.fetch("SELECT * FROM inferences")  # as a long report does
    settings = _with_settings(settings, keep_inferences_days=5)
    spool = open_spool(settings)
    new = spool_exchange(spool, b"request", b"response")
    spool.close()
    await drain(settings)
    await reader.close()
    assert new.id in [str(row["id"]) for row in await fetch(settings.database_url, "SELECT id FROM inferences")]


async def test_second_writer_can_be_stopped_while_waiting_for_the_first(settings: Settings) -> None:
    async with running_writer(settings):
        await wait_until(lambda: read_status(settings.home) is not None)
        async with asyncio.timeout(GENEROUS_S):
            await drain(settings)  # it is stopped before the first releases its lock


async def test_writer_status_reports_connection_lag_and_last_error(settings: Settings) -> None:
    spool = open_spool(settings)
    spool_exchange(spool, b"request", b"response")
    await asyncio.sleep(0.1)
    status = await drain(_with_settings(settings, database_url="postgresql://nobody@127.0.0.1:1/none", drain_timeout_s=0.3))
    assert not status.connected
    assert status.oldest_s > 0.1
    assert status.last_error
    assert status.spool_bytes > 0
    assert spool.stats().oldest_s > 0.1
    status = await drain(settings)
    assert (status.rows, status.oldest_s) == (1, 0)
    spool.close()


def _with_settings(settings: Settings, **changes: Any) -> Settings:
    return dataclasses.replace(settings, **changes)
