"""The writer: what is in the spool comes into Postgres, and what cannot is set aside."""

import asyncio
import dataclasses
import datetime
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain import Attempt, Exchange, Usage
from app.recording import quarantine
from app.recording.open_segment import OpenSegment
from app.recording.segment_format import EXCHANGE, PART_OF_RESPONSE, list_segments, pack_exchange, pack_part
from app.recording.spool import Spool
from app.recording.writer_status import read_status
from app.settings import Settings
from app.store.database import connect
from app.uuid7 import mint
from tests.recorded import exchange, record
from tests.stories.postgres import database, postgres
from tests.stories.writing import content_of, drain, fetch, ids_in, sums_in, until, writing

__all__ = ["database", "postgres"]

DAY_US = 86_400_000_000


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database, writer_batch_ms=10, spool_reserve_bytes=64 * 1024, drain_timeout_s=20)


def spool_of(settings: Settings) -> Spool:
    return Spool(settings.home / "spool", settings)


def set_aside(settings: Settings) -> list[dict[str, Any]]:
    """What the files in quarantine say of themselves."""
    return [msgspec.json.decode(path.read_bytes().split(b"\n")[0]) for path in sorted(settings.home.glob("quarantine/*.bad"))]


async def test_an_exchange_arrives_with_all_that_is_known_of_it(settings: Settings) -> None:
    spool = spool_of(settings)
    made = record(
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
    async with writing(settings):
        await until(lambda: _has(settings, 1))
        # The worker lives and its segment is open: recording does not wait for either to end.
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
    assert await content_of(settings.database_url, made.id) == ("full", b'{"model":"qwen3-4b"}', b"data: [DONE]\n\n" * 100)
    spool.close()


async def _has(settings: Settings, rows: int) -> bool:
    (row,) = await fetch(settings.database_url, "SELECT count(*) AS found FROM inferences")
    return row["found"] >= rows


async def test_what_was_spilled_is_put_together_and_finished_segments_are_removed(settings: Settings) -> None:
    settings = _changed(settings, spool_part_bytes=100, spool_segment_bytes=2000)
    spool = spool_of(settings)
    long = exchange()
    entry = spool.open(long.id, "full")
    entry.append_request(b"question " * 100)
    short: list[str] = []
    for at in range(50):
        entry.append_response(b"word %d " % at * 10)
        short.append(record(spool, b"ask", b"reply" * 30).id)
    entry.close(long)
    spool.close()
    await drain(settings)
    assert await ids_in(settings.database_url) == sorted([long.id, *short])
    reply = b"".join(b"word %d " % at * 10 for at in range(50))
    assert await content_of(settings.database_url, long.id) == ("full", b"question " * 100, reply)
    assert list(list_segments(settings.home / "spool")) == []
    assert await fetch(settings.database_url, "SELECT * FROM spool_positions") == []


async def test_content_policies_show_in_the_row(settings: Settings) -> None:
    spool = spool_of(settings)
    none = record(spool, b"ask", b"reply", content="none")
    redacted = record(spool, b'{"user":"Jane"}', b"reply", content="redacted")
    spool.close()
    await drain(settings)
    assert await content_of(settings.database_url, none.id) == ("none", None, None)
    assert await content_of(settings.database_url, redacted.id) == (
        "redacted",
        b'{"user":"[redacted: 4 characters]"}',
        b"[withheld: 5 bytes]",
    )


async def test_text_that_postgres_cannot_hold_does_not_cost_the_record(settings: Settings) -> None:
    spool = spool_of(settings)
    made = record(
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
    assert await content_of(settings.database_url, made.id) == ("full", b"a\0sk", b"\xff\0" * 300)


async def test_what_cannot_be_stored_is_set_aside_and_blocks_nothing(settings: Settings) -> None:
    spool = spool_of(settings)
    good = [record(spool, b"ask", b"reply").id for _ in range(5)]
    bad = [
        record(spool, b"ask", b"reply", status=70_000),  # refused by asyncpg
        record(spool, b"ask", b"reply", id=good[0]),  # refused by Postgres: it is there already
        record(spool, b"ask", b"reply", id=mint(0)),  # 1970
        record(spool, b"ask", b"reply", id=mint(130 * 365 * DAY_US)),  # 2100
        record(spool, b"ask", b"reply", id="not-an-id"),
        record(spool, b"ask", b"reply", team_id="nobody"),
        record(spool, b"ask", b"reply", received_us=2**62),
    ]
    good += [record(spool, b"ask", b"reply").id for _ in range(5)]
    spool.close()
    segment = OpenSegment(settings.home / "spool")
    segment.append(EXCHANGE, 0, pack_exchange(3, 0, 0) + b"\xc1\xc1\xc1")
    segment.append(77, 0, b"of a kind that is not known")
    segment.append(EXCHANGE, 0, pack_exchange(3000, 0, 0))
    segment.retire()
    status = await drain(settings)
    assert await ids_in(settings.database_url) == sorted(good)
    assert [row[4] for row in await sums_in(settings.database_url)] == [10]
    assert status.quarantined == len(set_aside(settings)) == len(bad) + 3
    assert status.rows == 10
    assert list(list_segments(settings.home / "spool")) == []
    partitions = await fetch(settings.database_url, "SELECT count(*) AS made FROM pg_inherits WHERE inhparent = 'inferences'::regclass")
    assert partitions[0]["made"] == 2  # today's and tomorrow's


async def test_usage_is_summed_up_by_key_hour_team_and_model(settings: Settings) -> None:
    spool = spool_of(settings)
    hour_us = 3_600_000_000
    this_us = time.time_ns() // 1000 // hour_us * hour_us
    keys = [str(uuid.UUID(int=number)) for number in (7, 8)]
    for at, key, model, changes in (
        (this_us, keys[0], "a", {"usage": Usage(10, 5, 4, 2), "charged_input": 10, "charged_output": 6, "cost_microusd": 100}),
        (this_us - 1, keys[0], "a", {"usage": Usage(), "outcome": "failed", "cost_microusd": 0}),
        (this_us, keys[0], "a", {"usage": Usage(1, None), "charged_input": 1, "charged_output": 50}),
        (this_us + 1, keys[0], "b", {"usage": Usage(10**15, 7), "charged_input": 10**15, "cost_microusd": -5}),
        (this_us, keys[1], "a", {"outcome": "hung_up", "charged_output": 3, "cost_microusd": 10**15}),
    ):
        record(spool, b"", b"", id=mint(at), received_us=at, key_id=key.upper(), model=model, **changes)
        await drain(settings)  # each in a batch of its own
    spool.close()
    told = [(str(row[0]), row[1].timestamp() * 1e6 - this_us, *row[3:]) for row in await sums_in(settings.database_url)]
    assert told == [
        (keys[0], -hour_us, "a", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (keys[0], 0, "a", 2, 0, 11, 5, 4, 2, 11, 56, 100, 1),
        (keys[0], 0, "b", 1, 0, 0, 7, 0, 0, 2**31 - 1, 0, 0, 0),
        (keys[1], 0, "a", 1, 0, 0, 0, 0, 0, 0, 3, 10**12, 0),
    ]


async def test_a_key_in_two_spellings_is_one_row(settings: Settings) -> None:
    spool = spool_of(settings)
    key = "abcdefab-cdef-4bcd-8fab-cdefabcdefab"
    for spelling in (key, key.upper(), key.replace("-", "")):
        record(spool, b"", b"", key_id=spelling, charged_input=1)
    spool.close()
    status = await drain(settings)
    assert status.quarantined == 0
    assert [row[10] for row in await sums_in(settings.database_url)] == [3]


async def test_records_of_a_version_that_did_not_charge_are_still_read(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    made = exchange(usage=Usage(1, 2))
    fields: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(made))
    meta = msgspec.msgpack.encode(fields[: Exchange.__struct_fields__.index("charged_input")])
    segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
    segment.retire()
    await drain(settings)
    (row,) = await fetch(settings.database_url, "SELECT id::text AS id, input_tokens, charged_input, cost_microusd FROM inferences")
    assert tuple(row.values()) == (made.id, 1, 0, None)
    await sums_in(settings.database_url)


async def test_quarantine_keeps_the_whole_record_and_is_filled_once(settings: Settings) -> None:
    settings = _changed(settings, spool_part_bytes=10)
    spool = spool_of(settings)
    made = exchange(status=70_000)
    entry = spool.open(made.id, "full")
    for word in (b"the quick ", b"brown fox jumps ", b"over"):
        entry.append_response(word)
    entry.close(made)
    async with writing(settings):
        await until(lambda: bool(set_aside(settings)))
    (path,) = settings.home.glob(f"quarantine/*{quarantine.QUARANTINE_SUFFIX}")
    first = path.read_bytes()
    assert made.id.encode() in first
    assert first.index(b"the quick") < first.index(b"brown fox") < first.index(b"over")
    spool.close()
    await drain(settings)  # reads it again: no position was committed, as no row was
    assert path.read_bytes() == first
    assert len(set_aside(settings)) == 1


async def test_a_record_that_cannot_even_be_set_aside_holds_up_its_own_segment_only(settings: Settings) -> None:
    quarantine_folder = settings.home / "quarantine"
    quarantine_folder.write_bytes(b"in the way")
    held = spool_of(settings)
    waiting = record(held, b"ask", b"reply")
    record(held, b"ask", b"reply", status=70_000)
    held.close()
    other = spool_of(settings)
    made = [record(other, b"ask", b"reply").id for _ in range(3)]
    async with writing(settings):
        await until(lambda: _has(settings, 3))
        assert await ids_in(settings.database_url) == sorted(made)
        quarantine_folder.unlink()
        await until(lambda: _has(settings, 4))
    other.close()
    assert await ids_in(settings.database_url) == sorted([waiting.id, *made])
    assert len(set_aside(settings)) == 1


async def test_damage_in_a_segment_is_set_aside_and_what_follows_is_written(settings: Settings) -> None:
    spool = spool_of(settings)
    made = [record(spool, b"ask", b"reply" * 20) for _ in range(9)]
    spool.close()
    (segment,) = (Path(each.path) for each in list_segments(settings.home / "spool"))
    data = bytearray(segment.read_bytes())
    data[data.index(made[4].id.encode())] ^= 1
    segment.write_bytes(data[:-3])
    status = await drain(settings)
    assert await ids_in(settings.database_url) == sorted(each.id for at, each in enumerate(made) if at not in (4, 8))
    assert (status.quarantined, status.torn) == (1, 1)
    assert not segment.exists()


async def test_damage_in_a_living_segment_holds_it_up_for_a_moment_only(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    made = [exchange() for _ in range(3)]
    ends: list[int] = []
    for each in made:
        meta = msgspec.msgpack.encode(each)
        segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        ends.append(segment.size)
    with segment.path.open("r+b") as file:
        file.seek(ends[0] + 40)
        file.write(b"\xff\xff")
    async with writing(settings):
        await until(lambda: _has(settings, 2))
    assert await ids_in(settings.database_url) == sorted([made[0].id, made[2].id])
    segment.retire()


async def test_parts_of_a_killed_worker_are_counted_and_dropped(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    first = segment.append(PART_OF_RESPONSE, 0, pack_part(b"\1" * 16, 0) + b"half an")
    segment.append(PART_OF_RESPONSE, 0, pack_part(b"\1" * 16, first) + b" answer")
    segment.retire()
    status = await drain(settings)
    assert status.dropped_parts == 2
    assert await ids_in(settings.database_url) == []
    assert list(list_segments(settings.home / "spool")) == []


async def test_a_part_that_cannot_be_read_costs_the_content_and_says_so(settings: Settings) -> None:
    settings = _changed(settings, spool_part_bytes=10)
    spool = spool_of(settings)
    made = record(spool, b"ask", b"a very long reply that is spilled")
    spool.close()
    (segment,) = (Path(each.path) for each in list_segments(settings.home / "spool"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"very")] ^= 1
    segment.write_bytes(data)
    status = await drain(settings)
    assert await content_of(settings.database_url, made.id) == ("lost", None, None)
    assert (status.lost_content, status.quarantined) == (1, 1)


async def test_a_segment_of_a_later_version_is_left_alone(settings: Settings) -> None:
    (settings.home / "spool").mkdir()
    path = settings.home / "spool" / "00000000000000-0000000000000000.spool"
    path.write_bytes(b"NARTHEX-SPOOL-2\nwho knows")
    await drain(settings)
    assert path.read_bytes() == b"NARTHEX-SPOOL-2\nwho knows"


async def test_both_sides_of_midnight_find_their_partition(settings: Settings) -> None:
    midnight_ms = time.time_ns() // 1_000_000 // 86_400_000 * 86_400_000
    spool = spool_of(settings)
    made = [record(spool, b"ask", b"reply", id=mint(midnight_ms * 1000 + shift)) for shift in (-1000, -1, 0, 1000)]
    long_ago = record(spool, b"ask", b"reply", id=mint(midnight_ms * 1000 - 9 * DAY_US))
    spool.close()
    status = await drain(settings)
    assert status.quarantined == 0
    rows = await fetch(settings.database_url, "SELECT tableoid::regclass::text AS place, id::text AS id FROM inferences ORDER BY id")
    today = datetime.datetime.fromtimestamp(midnight_ms / 1000, datetime.UTC).date()
    yesterday, then = today - datetime.timedelta(days=1), today - datetime.timedelta(days=9)
    assert [(row["place"], row["id"]) for row in rows] == [
        (f"inferences_{day:%Y%m%d}", each.id)
        for day, each in zip((then, yesterday, yesterday, today, today), (long_ago, *made), strict=True)
    ]


async def test_what_is_older_than_it_is_kept_is_dropped_each_by_its_own_age(settings: Settings) -> None:
    settings = _changed(settings, keep_inferences_days=20, keep_content_days=5)
    spool = spool_of(settings)
    now_us = time.time_ns() // 1000
    made = {age: record(spool, b"ask", b"reply", id=mint(now_us - age * DAY_US)) for age in (0, 4, 7, 19, 22)}
    spool.close()
    await drain(_changed(settings, keep_inferences_days=0, keep_content_days=0))
    assert len(await ids_in(settings.database_url)) == 5
    await drain(settings)
    inferences = await fetch(settings.database_url, "SELECT id::text AS id FROM inferences")
    contents = await fetch(settings.database_url, "SELECT id::text AS id FROM inference_content")
    assert {row["id"] for row in inferences} == {made[age].id for age in (0, 4, 7, 19)}
    assert {row["id"] for row in contents} == {made[age].id for age in (0, 4)}


async def test_an_expired_partition_that_is_being_read_is_dropped_later_and_holds_up_nothing(settings: Settings) -> None:
    spool = spool_of(settings)
    record(spool, b"ask", b"reply", id=mint(time.time_ns() // 1000 - 9 * DAY_US))
    spool.close()
    await drain(settings)
    reader = await connect(settings.database_url)
    await reader.execute("BEGIN")
    await reader.fetch("SELECT * FROM inferences")  # in the middle of a long report
    settings = _changed(settings, keep_inferences_days=5)
    spool = spool_of(settings)
    new = record(spool, b"ask", b"reply")
    spool.close()
    await drain(settings)
    await reader.close()
    assert new.id in [str(row["id"]) for row in await fetch(settings.database_url, "SELECT id FROM inferences")]


async def test_a_second_writer_waits_for_the_first(settings: Settings) -> None:
    async with writing(settings):
        await until(lambda: read_status(settings.home) is not None)
        started = time.monotonic()
        await drain(settings)  # asked to end before it had its turn: it ends
        assert time.monotonic() - started < 5


async def test_the_status_tells_how_far_behind_the_writer_is(settings: Settings) -> None:
    spool = spool_of(settings)
    record(spool, b"ask", b"reply")
    await asyncio.sleep(0.1)
    status = await drain(_changed(settings, database_url="postgresql://nobody@127.0.0.1:1/none", drain_timeout_s=0.3))
    assert not status.connected
    assert status.oldest_s > 0.1
    assert status.last_error
    assert status.spool_bytes > 0
    assert spool.stats().oldest_s > 0.1
    status = await drain(settings)
    assert (status.rows, status.oldest_s) == (1, 0)
    spool.close()


def _changed(settings: Settings, **changes: Any) -> Settings:
    return dataclasses.replace(settings, **changes)
