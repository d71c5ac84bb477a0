"""Stored responses with a real Redis and Postgres: found at once by every worker, with either store away, and not after deletion."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import redis.asyncio
from sqlalchemy import QueuePool

from app.domain.callers import Caller
from app.domain.episode_names import RecordedEpisode
from app.domain.uuid7 import mint
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.memory.body_memory import BodyMemory
from app.gateway.responses_state import conversations
from app.gateway.responses_state.conversations import ConversationStore, UnreadableResponse
from app.gateway.responses_state.history import ConversationTurn
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.database import create_database_engine as database_engine
from app.store.redis.response_cache import CachedResponse
from app.store.schema.migrate import migrate
from providers.canonical.errors import Unavailable, UnknownResponse
from providers.transport.loop_turns import LoopTurns
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.processes.writer_process import drain, fetch
from tests.support.spooled_exchanges import KEY, TEAM, spool_exchange

EPISODE = RecordedEpisode(mint(), "ticket-4711")
ADA = Caller(KEY, TEAM, "blue", "full")
EVE = Caller(KEY, "00000000-0000-0000-0000-0000000000ee", "red", "full")


@dataclass
class ResponsesState:
    """A gateway's store of responses and its spool. `settings.database_url` may name a server that is away."""

    settings: Settings
    store: ConversationStore
    spool: Spool

    def record(self, request: Any, response: Any, **changes: Any) -> str:
        """Records an inference as the request pipeline does; returns its id."""
        raw = response if isinstance(response, bytes) else json.dumps(response).encode()
        return spool_exchange(self.spool, json.dumps(request).encode(), raw, **{"route": "openai_responses", **changes}).id

    async def keep(self, request: Any, id: str | None = None, caller: Caller = ADA) -> str:
        """Stores a response as the request pipeline does, without a record; returns its id."""
        id = id or mint()
        await self.store.store_response(id, caller, EPISODE, json.dumps(request).encode(), json.dumps(response(id)).encode())
        return f"resp_{id}"

    async def finds(self, id: str, caller: Caller = ADA) -> bool:
        try:
            return bool(await self.store.find_response(id, caller))
        except UnknownResponse:
            return False


def response(id: str, text: str = "Hello.") -> Any:
    part: Any = {"type": "output_text", "text": text, "annotations": []}
    message: Any = {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": f"resp_{id}", "object": "response", "status": "completed", "model": "m", "output": [message]}


@contextlib.asynccontextmanager
async def open_state(settings: Settings) -> AsyncGenerator[ResponsesState]:
    database = database_engine(settings.database_url, pool_size=2)
    store, spool = (
        ConversationStore(settings, database, BodyMemory(settings), LargeRequests(settings, LoopTurns())),
        Spool(settings.home / "spool", settings),
    )
    store.start()
    try:
        yield ResponsesState(settings, store, spool)
    finally:
        await store.stop()
        await database.dispose()
        spool.close()


@pytest.fixture(scope="module")
async def servers(service: Service) -> tuple[str, str]:
    """A database of these tests' own, and the Redis of the service."""
    service_database = database_url(service)
    await fetch(service_database, "CREATE DATABASE stored")
    own = service_database.replace("/narthex?", "/stored?")
    await migrate(own)
    lines = (service.home / "run" / "servers").read_text().splitlines()
    return own, dict(line.split("=", 1) for line in lines)["REDIS_URL"]


@pytest.fixture
def settings(servers: tuple[str, str], tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=servers[0],
        redis_url=servers[1],
        redis_timeout_s=10,
        writer_batch_ms=10,
        spool_reserve_bytes=0,
        drain_timeout_s=GENEROUS_S,
    )


@pytest.fixture
async def state(settings: Settings) -> AsyncGenerator[ResponsesState]:
    async with open_state(settings) as opened_state:
        yield opened_state


def without_postgres(settings: Settings) -> Settings:
    return replace(settings, database_url="postgresql://nobody@127.0.0.1:9/none")


def without_redis(settings: Settings) -> Settings:
    return replace(settings, redis_url="redis://127.0.0.1:9")


@pytest.fixture
def patient_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups of recent responses wait longer for the writer than a busy machine may delay it."""
    monkeypatch.setattr(conversations, "_WRITER_WAIT_S", 2 * GENEROUS_S)


REQUEST = {"model": "m", "input": "Hi!"}


async def test_kept_response_is_found_at_once_by_every_worker_without_postgres(settings: Settings):
    async with open_state(without_postgres(settings)) as one, open_state(without_postgres(settings)) as other:
        id = await one.keep(REQUEST)
        stored = await other.store.find_response(id, ADA)
        assert isinstance(stored, ConversationTurn) and json.loads(stored.response) == response(id.removeprefix("resp_"))
        with pytest.raises(UnknownResponse):
            await other.store.find_response(id, EVE)
        with pytest.raises(Unavailable):
            await other.store.find_response(f"resp_{mint()}", ADA)


async def test_recorded_response_is_found_without_redis_and_after_redis_lost_it(settings: Settings):
    async with open_state(settings) as state, open_state(without_redis(settings)) as without_cache:
        id = f"resp_{state.record(REQUEST, response(mint(), 'Recorded.'))}"
        await drain(settings)
        for each in (state, without_cache):
            assert b"Recorded." in (await each.store.find_response(id, ADA)).response
            assert not await each.finds(id, EVE)


async def test_response_has_its_episode_from_redis_and_from_the_record(state: ResponsesState):
    kept = await state.keep(REQUEST)
    assert (await state.store.find_response(kept, ADA)).episode == EPISODE
    id = state.record(REQUEST, response(mint()), episode_id=EPISODE.id, episode_name=EPISODE.name)
    await drain(state.settings)
    assert (await state.store.find_response(f"resp_{id}", ADA)).episode == EPISODE


def test_response_that_an_older_version_cached_has_no_known_episode():
    older = msgspec.msgpack.encode([TEAM, b"{}", b"{}"])
    assert msgspec.msgpack.decode(older, type=CachedResponse) == CachedResponse(TEAM, b"{}", b"{}", None)


async def test_lookup_waits_for_a_response_that_is_not_yet_recorded(settings: Settings, patient_lookup: None):
    async with open_state(without_redis(settings)) as state:
        id = f"resp_{state.record(REQUEST, response(mint()))}"
        lookup = asyncio.create_task(state.store.find_response(id, ADA))
        await asyncio.sleep(0.2)
        assert not lookup.done()
        await drain(settings)
        assert (await asyncio.wait_for(lookup, GENEROUS_S)).id == id


async def test_lookup_does_not_wait_for_an_old_or_invalid_id(state: ResponsesState, patient_lookup: None):
    began = time.monotonic()
    assert not await state.finds("resp_01990000-0000-7000-8000-00000000000a")
    assert not await state.finds("resp_0123") and not await state.finds("chatcmpl-1")
    assert time.monotonic() - began < GENEROUS_S


async def test_streamed_response_is_rebuilt_from_its_recorded_events(state: ResponsesState):
    id = mint()
    frames: list[Any] = [
        {"type": "response.created", "sequence_number": 0, "response": {**response(id), "output": [], "status": "in_progress"}},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": '"response.completed"'},
        {"type": "response.completed", "sequence_number": 2, "response": response(id)},
    ]
    streamed = b"".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode() for frame in frames)
    state.record(REQUEST, streamed, id=id, streamed=True)
    await drain(state.settings)
    assert json.loads((await state.store.find_response(f"resp_{id}", ADA)).response) == response(id)


@pytest.mark.parametrize(
    "changes",
    [{"outcome": "failed"}, {"outcome": "disconnected"}, {"route": "openai_chat"}, {"request": {**REQUEST, "store": False}}],
    ids=str,
)
async def test_failed_unstored_or_other_inference_is_an_unknown_response(state: ResponsesState, changes: dict[str, Any]):
    id = state.record(changes.pop("request", REQUEST), response(mint()), **changes)
    await drain(state.settings)
    assert not await state.finds(f"resp_{id}")


async def test_response_of_a_team_without_stored_content_says_so(state: ResponsesState):
    quiet = msgspec.structs.replace(ADA, content="redacted")
    id = state.record(REQUEST, response(mint()), content="redacted")
    await state.store.store_response(id, quiet, EPISODE, b"{}", b"{}")
    await drain(state.settings)
    with pytest.raises(UnknownResponse, match="recorded without their content"):
        await state.store.find_response(f"resp_{id}", quiet)


async def test_deleted_response_is_unknown_to_every_worker_also_without_redis(settings: Settings):
    async with open_state(settings) as state, open_state(settings) as other, open_state(without_redis(settings)) as without_cache:
        id = state.record(REQUEST, response(mint()))
        await state.keep(REQUEST, id)
        await drain(settings)
        with pytest.raises(UnknownResponse):
            await state.store.delete_stored(f"resp_{id}", EVE)
        await state.store.delete_stored(f"resp_{id}", ADA)
        for each in (state, other, without_cache):
            assert not await each.finds(f"resp_{id}")
        async with redis.asyncio.Redis.from_url(settings.redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
            assert await client.delete(f"nx:r:{id}") == 1
        assert not await other.finds(f"resp_{id}")
        with pytest.raises(UnknownResponse):
            await state.store.delete_stored(f"resp_{id}", ADA)
        assert len(await fetch(settings.database_url, "SELECT FROM inference_content WHERE id = $1 AND response IS NOT NULL", id)) == 1


async def test_response_whose_request_is_nested_too_deeply_to_be_read_can_be_deleted(state: ResponsesState):
    id = mint()
    request = b'{"model": "m", "input": %b%b}' % (b"[" * 2_000, b"]" * 2_000)
    await state.store.store_response(id, ADA, EPISODE, request, json.dumps(response(id)).encode())
    with pytest.raises(UnreadableResponse):
        await state.store.find_response(f"resp_{id}", ADA)
    with pytest.raises(UnknownResponse):
        await state.store.delete_stored(f"resp_{id}", EVE)
    await state.store.delete_stored(f"resp_{id}", ADA)
    assert not await state.finds(f"resp_{id}")


@pytest.mark.parametrize("away", [without_redis, without_postgres])
async def test_delete_fails_while_redis_or_postgres_is_down(settings: Settings, away: Any):
    async with open_state(settings) as state, open_state(away(settings)) as partial:
        id = state.record(REQUEST, response(mint()))
        await state.keep(REQUEST, id)
        await drain(settings)
        with pytest.raises(Unavailable):
            await partial.store.delete_stored(f"resp_{id}", ADA)
        assert await state.finds(f"resp_{id}")


async def test_deletion_markers_expire_with_the_content_they_cover(settings: Settings):
    async with open_state(replace(settings, keep_content_days=30)) as state:
        old, id = "01900000-0000-7000-8000-000000000001", await state.keep(REQUEST)
        await fetch(settings.database_url, "INSERT INTO deleted_responses (id, team_id) VALUES ($1, $2)", old, TEAM)
        await state.store.delete_stored(id, ADA)
        rows = await fetch(settings.database_url, "SELECT id::text AS id FROM deleted_responses")
        ids = {row["id"] for row in rows}
        assert id.removeprefix("resp_") in ids and old not in ids


async def test_response_too_large_for_redis_is_found_in_postgres(settings: Settings, patient_lookup: None):
    async with open_state(replace(settings, responses_max_bytes=100)) as state:
        id = state.record(REQUEST, response(mint()))
        await state.keep(REQUEST, id)
        lookup = asyncio.create_task(state.finds(f"resp_{id}"))
        await asyncio.sleep(0.1)
        assert not lookup.done()
        await drain(settings)
        assert await lookup


@contextlib.asynccontextmanager
async def state_with_silent_redis(settings: Settings, timeout_s: float) -> AsyncGenerator[ResponsesState]:
    """Opens the state with a Redis that accepts connections and never replies."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        redis_url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        async with open_state(replace(settings, redis_url=redis_url, redis_timeout_s=timeout_s)) as opened_state:
            yield opened_state


async def test_silent_redis_does_not_delay_every_save_and_fails_none(settings: Settings):
    timeout_s = 1.0
    async with state_with_silent_redis(settings, timeout_s) as state:
        began = time.monotonic()
        ids = [await state.keep(REQUEST) for _ in range(20)]
        assert time.monotonic() - began < 10 * timeout_s and len(set(ids)) == 20


async def test_cancelled_lookup_returns_at_once_while_redis_is_silent(settings: Settings):
    timeout_s = 4.0
    async with state_with_silent_redis(settings, timeout_s) as state:
        lookup = asyncio.create_task(state.store.find_response(f"resp_{mint()}", ADA))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        lookup.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lookup
        assert time.monotonic() - began < timeout_s / 2


async def test_many_lookups_of_unknown_ids_leave_connections_to_others(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conversations, "_WRITER_WAIT_S", 1.0)
    max_connections = 0
    async with open_state(settings) as state:
        pool = cast(QueuePool, state.store._database.pool)  # pyright: ignore[reportPrivateUsage]
        flood = [asyncio.create_task(state.finds(f"resp_{mint()}", EVE)) for _ in range(200)]
        waiting = {*flood}
        while waiting:
            max_connections = max(max_connections, pool.checkedout())
            _, waiting = await asyncio.wait(waiting, timeout=0.001)
        assert not any(each.result() for each in flood)
    assert 1 <= max_connections <= 2
