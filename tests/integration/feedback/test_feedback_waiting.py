"""Feedback that waits for what it is about: how often and where it is looked for, whose turn it is, and what is given up."""

import datetime
import re
import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from app.domain import uuid7
from app.recording.spool.feedback_records import Feedback
from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import read_status
from app.recording.writer.feedback_matching import match_due
from app.recording.writes.feedback_pending import claim_due, count_unmatched, give_up_excess, postpone, wake, wake_all
from app.settings import Settings
from app.store.postgres.database import connect
from app.store.postgres.partitions import create_partitions, today
from app.store.records.feedback_targets import FIND_INFERENCES
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import make_exchange, spool_exchange
from tests.support.spooled_feedback import TEAM, make_feedback, spool_feedback

Connection: TypeAlias = "asyncpg.Connection[Any]"
OTHER_TEAM = str(uuid.UUID(int=101))
NAMED = "8c1de8e4-1d26-8f2c-9d56-0a7b1d4a6f11"
DAY_US = 86_400_000_000


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_ms=5.0)


@pytest.fixture
async def connection(settings: Settings) -> AsyncGenerator[Connection]:
    connection = await connect(settings.database_url)
    yield connection
    await connection.close()


async def store(settings: Settings, *feedback: Feedback) -> None:
    """Stores feedback and makes it wait, as if it had not been looked for yet."""
    spool = Spool(settings.home / "spool", settings)
    for at in range(0, len(feedback), 500):
        spool_feedback(spool, *feedback[at : at + 500])
    spool.close()
    await drain(settings)
    await fetch(
        settings.database_url, "UPDATE feedback_pending SET check_at = now() - interval '1 minute', searches = 0, searched_until = NULL"
    )


async def waiting(settings: Settings, columns: str = "id::text") -> list[Any]:
    rows = await fetch(settings.database_url, f"SELECT {columns} FROM feedback_pending ORDER BY id")
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


async def is_matched(settings: Settings, *feedback: Feedback) -> bool:
    rows = await fetch(settings.database_url, "SELECT id::text FROM feedback WHERE matched_at IS NOT NULL")
    return {row["id"] for row in rows} >= {each.id for each in feedback}


def about_nothing(count: int, **changes: Any) -> list[Feedback]:
    return [make_feedback(uuid7.mint(), **changes) for _ in range(count)]


async def test_what_is_not_found_is_looked_for_fourteen_times_in_all_its_days(settings: Settings, connection: Connection):
    await store(settings, *about_nothing(1))
    waits: list[float] = []
    for _ in range(16):
        assert await match_due(connection, 500) == (1, 0)
        waits += [(at - datetime.datetime.now(datetime.UTC)).total_seconds() for at in await waiting(settings, "check_at")]
        await fetch(settings.database_url, "UPDATE feedback_pending SET check_at = now()")
    assert waits == pytest.approx([4.0 ** min(at, 12) for at in range(16)], abs=0.9)
    assert sum(waits[:14]) > 400 * 86400
    assert await waiting(settings, "searches") == [16]


async def test_an_inference_is_looked_for_in_the_partition_of_its_day(settings: Settings, connection: Connection):
    await create_partitions(connection, set(range(today() - 9, today() + 1)))
    ids = [uuid7.mint(time.time_ns() // 1000 - days * DAY_US) for days in (2, 5)]
    lines = await connection.fetch(f"EXPLAIN ANALYZE {FIND_INFERENCES.format(only_erased='')}", ids)
    read = {name for row in lines if "never executed" not in row[0] for name in re.findall(r" on (inferences_\d+)", row[0])}
    days = [datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days) for days in (2, 5)]
    assert read == {f"inferences_{day:%Y%m%d}" for day in days}, lines


async def test_an_episode_is_looked_for_again_in_what_may_have_been_stored_since(settings: Settings, connection: Connection):
    """A record that is stored later than that wakes the feedback, which then has everything searched."""
    said = make_feedback(NAMED, level="episode")
    await store(settings, said)
    assert await match_due(connection, 500) == (1, 0)
    old_us = time.time_ns() // 1000 - 5 * DAY_US
    spool = Spool(settings.home / "spool", settings)
    spool_exchange(spool, b"", b"", id=uuid7.mint(old_us), received_us=old_us, episode_id=NAMED, team_id=TEAM)
    spool.close()
    await drain(settings)
    await fetch(settings.database_url, "UPDATE feedback SET matched_at = NULL")
    again = "INSERT INTO feedback_pending (id, team_id, level, target_id, received_at, searched_until)"
    again += " SELECT id, team_id, level, target_id, received_at, now() FROM feedback"
    await fetch(settings.database_url, f"{again} ON CONFLICT (id) DO UPDATE SET searched_until = now(), check_at = now()")
    assert await match_due(connection, 500) == (1, 0)
    async with connection.transaction():
        await wake_all(connection, {(TEAM, NAMED)})
    assert await match_due(connection, 500) == (1, 1)
    assert await is_matched(settings, said)


async def test_feedback_that_would_not_be_looked_for_for_months_matches_as_soon_as_its_episode_begins(settings: Settings):
    said, of_others = make_feedback(NAMED, level="episode"), make_feedback(NAMED, level="episode", team_id=OTHER_TEAM)
    await store(settings, said, of_others)
    asleep = "check_at = now() + interval '100 days', searches = 12, searched_until = now()"
    await fetch(settings.database_url, f"UPDATE feedback_pending SET {asleep}")
    spool = Spool(settings.home / "spool", settings)
    async with running_writer(settings):
        spool_exchange(spool, b"question", b"answer", episode_id=NAMED, team_id=TEAM)
        await wait_until(lambda: is_matched(settings, said))
    spool.close()
    assert await waiting(settings, "id::text, searches") == [(of_others.id, 12)]  # another team's inference does not wake it


async def test_what_is_woken_while_it_is_looked_for_is_looked_for_again(settings: Settings, connection: Connection):
    await store(settings, *about_nothing(2))
    now = datetime.datetime.now(datetime.UTC)
    claimed = await claim_due(connection, 500)
    assert len(claimed) == 2 and await claim_due(connection, 500) == []
    async with connection.transaction():
        await wake(connection, {(TEAM, claimed[0].target.id)})
    await postpone(connection, claimed, now)
    assert [each.id for each in await claim_due(connection, 500)] == [claimed[0].id]


async def test_teams_take_turns(settings: Settings, connection: Connection):
    """Teams take turns however much one of them sends about nothing, and however long it has been waiting."""
    many, one = about_nothing(700), make_feedback(uuid7.mint(), team_id=OTHER_TEAM)
    await store(settings, *many, one)
    await fetch(settings.database_url, "UPDATE feedback_pending SET check_at = now() WHERE team_id = $1", OTHER_TEAM)
    assert one.id in {each.id for each in await claim_due(connection, 20)}


async def test_a_team_that_waits_for_too_much_gives_up_its_oldest_and_no_other_does(settings: Settings, connection: Connection):
    us = time.time_ns() // 1000
    mine = [make_feedback(uuid7.mint(us - 3 * DAY_US), received_us=us - DAY_US + at) for at in range(50)]
    theirs = about_nothing(5, team_id=OTHER_TEAM)
    await store(settings, *mine, *theirs)
    assert await count_unmatched(connection, datetime.timedelta(minutes=5)) == 50
    bounded = replace(settings, feedback_waiting_per_team=20)
    async with running_writer(bounded):

        async def is_given_up() -> bool:
            status = read_status(settings.home)
            return status is not None and status.given_up_feedback == 30

        await wait_until(is_given_up)
        assert await waiting(settings) == [each.id for each in (*mine[30:], *theirs)]
        # A record that comes late finds even what was given up.
        late = make_exchange(id=mine[0].target_id, received_us=us - 3 * DAY_US, team_id=TEAM)
        spool = Spool(settings.home / "spool", settings)
        spool_exchange(spool, b"", b"", **{name: getattr(late, name) for name in late.__struct_fields__})
        spool.close()
        await wait_until(lambda: is_matched(settings, mine[0]))
    async with connection.transaction():
        assert await give_up_excess(connection, 20, 12) == 20 - 7
    assert len(await waiting(settings)) == 12
