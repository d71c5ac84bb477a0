"""Replays take turns: none that is long, or waits, keeps the places of a gateway process from those of other teams."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.gateway.pipeline.gateway import Gateway
from app.gateway.replay import runner
from app.gateway.replay.replay_runs import HeldReplay, others_wait, release_lease, take_replay
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import create_database_engine
from app.store.replays.replays import ReplayDefinition, cancel_replay, find_replay

DEFINITION = ReplayDefinition(
    filter={}, model="m", variant=None, key="nx-0", sample=1.0, seed="s", max_items=9, max_usd=None, concurrency=2, per_minute=1, judge=None
)
_INSERT = text("""
    INSERT INTO replays (id, definition, team_id, key_id, created_at, created_by, refused)
    VALUES (:id, CAST(:definition AS jsonb), :team, :key, now(), 'n', '{}')
""")
# Of originals that are not kept any more: each is refused as soon as it is run.
_INSERT_ITEMS = text("""
    INSERT INTO replay_items (replay_id, number, original_id, episode)
    SELECT :id, number, :original, number FROM generate_series(1, 3) AS number
""")


@pytest.fixture
async def engine(database: str) -> AsyncGenerator[AsyncEngine]:
    engine = create_database_engine(database)
    yield engine
    await engine.dispose()


async def add(engine: AsyncEngine, team: str, definition: ReplayDefinition = DEFINITION) -> str:
    id = uuid7.mint()
    async with engine.begin() as connection:
        values = {"id": id, "definition": msgspec.json.encode(definition).decode(), "team": team, "key": uuid7.mint()}
        await connection.execute(_INSERT, values)
        await connection.execute(_INSERT_ITEMS, {"id": id, "original": uuid7.mint()})
    return id


async def take(engine: AsyncEngine) -> HeldReplay:
    async with engine.begin() as connection:
        held = await take_replay(connection, "gateway-0")
    assert held is not None
    return held


async def release(engine: AsyncEngine, held: HeldReplay) -> None:
    async with engine.begin() as connection:
        await release_lease(connection, held)


async def have_to_make_room(engine: AsyncEngine, *all_held: HeldReplay) -> list[bool]:
    async with engine.connect() as connection:
        return [await others_wait(connection, held) for held in all_held]


async def test_room_is_made_for_the_team_that_has_fewer_running(engine: AsyncEngine) -> None:
    busy, other = uuid7.mint(), uuid7.mint()
    ids = [await add(engine, busy) for _ in range(3)]
    first, second = await take(engine), await take(engine)
    assert [first.id, second.id] == ids[:2]
    assert await have_to_make_room(engine, first, second) == [False, False], "the third is of the same team"
    others = await add(engine, other)
    assert await have_to_make_room(engine, first, second) == [True, True]
    await release(engine, first)
    taken = await take(engine)
    assert taken.id == others
    assert await have_to_make_room(engine, second, taken) == [False, False], "each team has one"
    await release(engine, second)
    assert await have_to_make_room(engine, taken) == [True]
    assert [(await take(engine)).id for _ in range(3)] == [ids[2], ids[0], ids[1]], "those that have waited for longest come first"


async def state_of(engine: AsyncEngine, id: str) -> tuple[str, int, int]:
    """Its status, and how many items are over and pending."""
    async with engine.connect() as connection:
        found = await find_replay(connection, id)
    assert found is not None
    return found.status, found.items["refused"], found.items["pending"]


async def run(engine: AsyncEngine, held: HeldReplay) -> None:
    gateway = cast("Gateway", SimpleNamespace(draining=False))
    await runner._Run(gateway, engine, held).run()  # pyright: ignore[reportPrivateUsage]


async def test_a_long_replay_is_left_when_it_is_the_turn_of_another_team(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that begins one item a minute begins the first, and then none before the others have had their turn."""
    monkeypatch.setattr(runner, "_TURN_S", 0.0)
    monkeypatch.setattr(runner, "_RENEW_EVERY_S", 0.05)
    id = await add(engine, uuid7.mint())
    held = await take(engine)
    running = asyncio.create_task(run(engine, held))
    while (await state_of(engine, id))[1] == 0:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert not running.done(), "nobody else waits"
    await add(engine, uuid7.mint())
    async with asyncio.timeout(20):
        await running
    assert await state_of(engine, id) == ("running", 1, 2)


async def test_a_cancelled_replay_does_not_wait_for_its_rate(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_RENEW_EVERY_S", 0.05)
    id = await add(engine, uuid7.mint())
    running = asyncio.create_task(run(engine, await take(engine)))
    while (await state_of(engine, id))[1] == 0:
        await asyncio.sleep(0.02)
    async with engine.begin() as connection:
        await cancel_replay(connection, SYSTEM, id)
    async with asyncio.timeout(20):
        await running
    assert await state_of(engine, id) == ("cancelled", 1, 2)


async def test_what_another_process_has_left_begins_no_earlier_than_its_rate(engine: AsyncEngine) -> None:
    await add(engine, uuid7.mint())
    await release(engine, await take(engine))
    begun_s = time.monotonic()
    held = msgspec.structs.replace(again := await take(engine), definition=msgspec.structs.replace(again.definition, per_minute=60))
    async with asyncio.timeout(20):
        await run(engine, held)
    assert time.monotonic() - begun_s > 2.9
    assert await state_of(engine, held.id) == ("complete", 3, 0)


async def test_a_replay_that_breaks_off_ends_no_other(
    engine: AsyncEngine, database: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay breaks off by what nobody has thought of, here a cap beyond all numbers; it may be taken again at once."""
    broken = await add(engine, uuid7.mint(), msgspec.structs.replace(DEFINITION, max_usd=1e303))
    gateway: Any = SimpleNamespace(draining=False, settings=SimpleNamespace(database_url=database))
    with caplog.at_level(logging.ERROR):
        await runner.ReplayRunner(gateway, engine)._run(await take(engine))  # pyright: ignore[reportPrivateUsage]
    assert "a replay broke off" in caplog.text
    assert (await take(engine)).id == broken
