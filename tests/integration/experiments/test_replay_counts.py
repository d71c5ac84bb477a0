"""Items of replays that have ended are not counted again by each list: a page of large ones would take minutes."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.gateway.replay.replay_runs import finish_replay, read_pending, release_lease, settle_item, take_item
from app.store.experiments.queries import ListQuery
from app.store.postgres.audit_log import SYSTEM
from app.store.replays import team_room
from app.store.replays.replays import cancel_replay, page_replays, resume_replay
from app.store.replays.team_room import TooManyReplays
from tests.integration.experiments.test_replay_turns import add, engine, take

__all__ = ["engine"]

ALL_PENDING = {"pending": 3, "running": 0, "done": 0, "refused": 0}


@pytest.fixture
async def replay(engine: AsyncEngine) -> AsyncGenerator[str]:
    yield await add(engine, uuid7.mint())


async def shown(engine: AsyncEngine) -> tuple[Any, int]:
    async with engine.connect() as connection:
        page = await page_replays(connection, ListQuery(10, None, "-created_at"), only_teams=None, status=None)
    [found] = page.data
    return dict(found.items), found.retried


async def lose_items(engine: AsyncEngine) -> None:
    """Deletes all items: the counts that are shown afterwards were stored before."""
    async with engine.begin() as connection:
        await connection.execute(text("DELETE FROM replay_items"))


async def test_what_ended_keeps_its_counts(engine: AsyncEngine, replay: str) -> None:
    held = await take(engine)
    async with engine.begin() as connection:
        await finish_replay(connection, held, "complete", None)
    await lose_items(engine)
    assert await shown(engine) == (ALL_PENDING, 0)


async def test_what_is_cancelled_is_counted_when_its_last_item_has_ended(engine: AsyncEngine, replay: str) -> None:
    held = await take(engine)
    async with engine.begin() as connection:
        item = (await read_pending(connection, held, 0, 1))[0]
        await take_item(connection, held, item)
        await cancel_replay(connection, SYSTEM, replay)
    assert (await shown(engine))[0]["running"] == 1
    async with engine.begin() as connection:
        await settle_item(connection, held, item, reserved_microusd=0, cost_microusd=0, status="done")
        await release_lease(connection, held)
    await lose_items(engine)
    assert await shown(engine) == ({**ALL_PENDING, "pending": 2, "done": 1}, 0)


async def test_what_nobody_runs_is_counted_when_it_is_cancelled_and_again_once_it_goes_on(engine: AsyncEngine, replay: str) -> None:
    async with engine.begin() as connection:
        await cancel_replay(connection, SYSTEM, replay)
    async with engine.begin() as connection:
        await connection.execute(text("DELETE FROM replay_items WHERE number = 3"))
    assert await shown(engine) == (ALL_PENDING, 0)
    async with engine.begin() as connection:
        await resume_replay(connection, SYSTEM, replay)
    assert await shown(engine) == ({**ALL_PENDING, "pending": 2}, 0)


async def test_no_more_go_on_than_may_run(engine: AsyncEngine, replay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine.begin() as connection:
        await cancel_replay(connection, SYSTEM, replay)
    monkeypatch.setattr(team_room, "MAX_RUNNING_OF_TEAM", 0)
    async with engine.begin() as connection:
        with pytest.raises(TooManyReplays, match="have not ended"):
            await resume_replay(connection, SYSTEM, replay)
