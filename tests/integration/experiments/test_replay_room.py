"""Replays that a team keeps, and the items of them, are bounded: also of those that have ended, until they are deleted."""

from collections.abc import AsyncGenerator

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.store.postgres.audit_log import SYSTEM
from app.store.records.inference_filter import InferenceFilter
from app.store.replays import team_room
from app.store.replays.replays import NewReplay, delete_replay, find_replay, start_replay
from app.store.replays.team_room import MAX_ITEMS_OF_TEAM, TooManyReplays
from tests.integration.experiments.test_replay_turns import DEFINITION, add, engine

__all__ = ["engine"]

_RECORD = text("""
    INSERT INTO inferences
        (id, episode_id, received_at, team_id, key_id, route, model, streamed, status, outcome, duration_us, snapshot)
    VALUES (:id, :id, now(), :team, :id, 'openai_chat', 'm', false, 200, 'answered', 1, 's')
""")


@pytest.fixture
async def team(engine: AsyncEngine) -> AsyncGenerator[str]:
    """A team with two recorded requests."""
    id = uuid7.mint()
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO teams (id, name, content) VALUES (:id, :name, 'full')"), {"id": id, "name": id})
        for table in ("inferences", "inference_content"):
            await connection.execute(text(f"CREATE TABLE every_day_of_{table} PARTITION OF {table} DEFAULT"))
        for inference in (uuid7.mint(), uuid7.mint()):
            await connection.execute(_RECORD, {"id": inference, "team": id})
            content = text("INSERT INTO inference_content (id, policy, request) VALUES (:id, 'full', ''::bytea)")
            await connection.execute(content, {"id": inference})
    yield id


async def add_ended(engine: AsyncEngine, team: str, items: int) -> str:
    """A replay that has ended, with so many items, of which one stands for all."""
    id = await add(engine, team)
    async with engine.begin() as connection:
        await connection.execute(text("DELETE FROM replay_items WHERE replay_id = :id AND number <> 3"), {"id": id})
        await connection.execute(text("UPDATE replay_items SET number = :items WHERE replay_id = :id"), {"id": id, "items": items})
        await connection.execute(text("UPDATE replays SET status = 'cancelled' WHERE id = :id"), {"id": id})
    return id


async def start(engine: AsyncEngine, team: str, key: str = "019aa3f4-7492-7b70-8347-955764f97b3d") -> str:
    definition = msgspec.structs.replace(DEFINITION, max_items=5)
    async with engine.begin() as connection:
        return await start_replay(connection, SYSTEM, NewReplay(definition, InferenceFilter(), team, key, "busy"))


async def delete(engine: AsyncEngine, id: str) -> None:
    async with engine.begin() as connection:
        found = await find_replay(connection, id, lock=True)
        assert found is not None
        await delete_replay(connection, SYSTEM, found)


async def test_a_start_that_does_not_fit_names_what_to_delete(engine: AsyncEngine, team: str) -> None:
    small, large = await add_ended(engine, team, 9), await add_ended(engine, team, MAX_ITEMS_OF_TEAM - 10)
    with pytest.raises(TooManyReplays, match=rf"2 requests more are too many.* such as {large} \(999,990 requests, .*\), {small} \(9 "):
        await start(engine, team)
    await delete(engine, small)
    started = await start(engine, team)
    assert await items_of(engine, started) == 2
    await delete(engine, large)
    assert await items_of(engine, large) == 0


async def items_of(engine: AsyncEngine, id: str) -> int:
    async with engine.connect() as connection:
        return (await connection.scalar(text("SELECT count(*) FROM replay_items WHERE replay_id = :id"), {"id": id})) or 0


async def test_the_number_of_replays_is_bounded_too(engine: AsyncEngine, team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_room, "MAX_KEPT_OF_TEAM", 2)
    await add_ended(engine, uuid7.mint(), 3)
    ids = [await add_ended(engine, team, 3) for _ in range(2)]
    with pytest.raises(TooManyReplays, match="keeps 2 replays of 6 requests"):
        await start(engine, team)
    await delete(engine, ids[0])
    assert await items_of(engine, await start(engine, team)) == 2
