"""What a gateway remembers of responses, with real stores: at once, for every worker, with either of the stores away, and no longer."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis.asyncio

from app.domain import Caller
from app.gateway.responses_state.conversations import ConversationStore
from app.gateway.responses_state.history import ConversationTurn
from app.recording.spool import Spool
from app.settings import Settings
from app.store.database import create_database_engine as database_engine
from app.store.migrate import migrate
from app.uuid7 import mint
from providers.canonical.errors import Unavailable, UnknownResponse
from tests.recorded import KEY, TEAM, record
from tests.stories.looking import database_url
from tests.stories.service import Service
from tests.stories.writing import drain, fetch

ADA = Caller(KEY, TEAM, "blue", "full")
EVE = Caller(KEY, "00000000-0000-0000-0000-0000000000ee", "red", "full")


@dataclass
class Place:
    """A gateway's memory of responses, and the spool beside it. `settings.database_url` may be of a server that is away."""

    settings: Settings
    conversations: ConversationStore
    spool: Spool

    def record(self, ask: Any, response: Any, **changes: Any) -> str:
        """As the road records it. The inference's id."""
        raw = response if isinstance(response, bytes) else json.dumps(response).encode()
        return record(self.spool, json.dumps(ask).encode(), raw, **{"route": "openai_responses", **changes}).id

    async def keep(self, ask: Any, id: str | None = None, caller: Caller = ADA) -> str:
        """As the road keeps it, without a record. The response's id."""
        id = id or mint()
        await self.conversations.store_response(id, caller, json.dumps(ask).encode(), json.dumps(response(id)).encode())
        return f"resp_{id}"

    async def finds(self, id: str, caller: Caller = ADA) -> bool:
        try:
            return bool(await self.conversations.find_response(id, caller))
        except UnknownResponse:
            return False


def response(id: str, said: str = "Hello.") -> Any:
    part: Any = {"type": "output_text", "text": said, "annotations": []}
    message: Any = {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": f"resp_{id}", "object": "response", "status": "completed", "model": "m", "output": [message]}


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Place]:
    asking = database_engine(settings.database_url, pool_size=2)
    conversations, spool = ConversationStore(settings, asking), Spool(settings.home / "spool", settings)
    conversations.start()
    try:
        yield Place(settings, conversations, spool)
    finally:
        await conversations.stop()
        await asking.dispose()
        spool.close()


@pytest.fixture(scope="module")
async def servers(service: Service) -> tuple[str, str]:
    """A database of these tests' own, and the Redis that the service has."""
    usual = database_url(service)
    await fetch(usual, "CREATE DATABASE stored")
    own = usual.replace("/narthex?", "/stored?")
    await migrate(own)
    lines = (service.home / "run" / "servers").read_text().splitlines()
    return own, dict(line.split("=", 1) for line in lines)["REDIS_URL"]


@pytest.fixture
def settings(servers: tuple[str, str], tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=servers[0], redis_url=servers[1], writer_batch_ms=10, spool_reserve_bytes=0)


@pytest.fixture
async def place(settings: Settings) -> AsyncGenerator[Place]:
    async with opened(settings) as place:
        yield place


def without_postgres(settings: Settings) -> Settings:
    return replace(settings, database_url="postgresql://nobody@127.0.0.1:9/none")


def without_redis(settings: Settings) -> Settings:
    return replace(settings, redis_url="redis://127.0.0.1:9")


ASK = {"model": "m", "input": "Hi!"}


async def test_what_was_kept_is_there_at_once_for_every_worker_without_postgres(settings: Settings):
    async with opened(without_postgres(settings)) as one, opened(without_postgres(settings)) as other:
        id = await one.keep(ASK)
        stored = await other.conversations.find_response(id, ADA)
        assert isinstance(stored, ConversationTurn) and json.loads(stored.response) == response(id.removeprefix("resp_"))
        with pytest.raises(UnknownResponse):
            await other.conversations.find_response(id, EVE)
        with pytest.raises(Unavailable):
            await other.conversations.find_response(f"resp_{mint()}", ADA)


async def test_what_was_recorded_is_there_without_redis_and_when_redis_has_forgotten(settings: Settings):
    async with opened(settings) as place, opened(without_redis(settings)) as bare:
        id = f"resp_{place.record(ASK, response(mint(), 'Recorded.'))}"
        await drain(settings)
        for each in (place, bare):
            assert b"Recorded." in (await each.conversations.find_response(id, ADA)).response
            assert not await each.finds(id, EVE)


async def test_one_that_is_not_yet_recorded_is_waited_for(settings: Settings):
    async with opened(without_redis(settings)) as place:
        id = f"resp_{place.record(ASK, response(mint()))}"
        looking = asyncio.create_task(place.conversations.find_response(id, ADA))
        await asyncio.sleep(0.2)
        assert not looking.done()
        await drain(settings)
        assert (await asyncio.wait_for(looking, 3)).id == id


async def test_an_old_id_is_not_waited_for(place: Place):
    began = time.monotonic()
    assert not await place.finds("resp_01990000-0000-7000-8000-00000000000a")
    assert not await place.finds("resp_0123") and not await place.finds("chatcmpl-1")
    assert time.monotonic() - began < 1


async def test_a_stream_is_read_back_from_what_passed(place: Place):
    id = mint()
    frames: list[Any] = [
        {"type": "response.created", "sequence_number": 0, "response": {**response(id), "output": [], "status": "in_progress"}},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": '"response.completed"'},
        {"type": "response.completed", "sequence_number": 2, "response": response(id)},
    ]
    streamed = b"".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode() for frame in frames)
    place.record(ASK, streamed, id=id, streamed=True)
    await drain(place.settings)
    assert json.loads((await place.conversations.find_response(f"resp_{id}", ADA)).response) == response(id)


@pytest.mark.parametrize(
    "changes", [{"outcome": "failed"}, {"outcome": "hung_up"}, {"route": "openai_chat"}, {"ask": {**ASK, "store": False}}], ids=str
)
async def test_what_is_no_stored_answer_is_unknown(place: Place, changes: dict[str, Any]):
    id = place.record(changes.pop("ask", ASK), response(mint()), **changes)
    await drain(place.settings)
    assert not await place.finds(f"resp_{id}")


async def test_a_team_whose_content_is_not_kept_is_told_so(place: Place):
    quiet = msgspec.structs.replace(ADA, content="redacted")
    id = place.record(ASK, response(mint()), content="redacted")
    await place.conversations.store_response(id, quiet, b"{}", b"{}")
    await drain(place.settings)
    with pytest.raises(UnknownResponse, match="recorded without its content"):
        await place.conversations.find_response(f"resp_{id}", quiet)


async def test_one_that_was_deleted_is_unknown_to_every_worker_also_without_redis(settings: Settings):
    async with opened(settings) as place, opened(settings) as other, opened(without_redis(settings)) as bare:
        id = place.record(ASK, response(mint()))
        await place.keep(ASK, id)
        await drain(settings)
        with pytest.raises(UnknownResponse):
            await place.conversations.delete_stored(f"resp_{id}", EVE)
        await place.conversations.delete_stored(f"resp_{id}", ADA)
        for each in (place, other, bare):
            assert not await each.finds(f"resp_{id}")
        async with redis.asyncio.Redis.from_url(settings.redis_url) as forgetful:  # pyright: ignore[reportUnknownMemberType]
            assert await forgetful.delete(f"nx:r:{id}") == 1
        assert not await other.finds(f"resp_{id}")
        with pytest.raises(UnknownResponse):
            await place.conversations.delete_stored(f"resp_{id}", ADA)
        assert len(await fetch(settings.database_url, "SELECT FROM inference_content WHERE id = $1 AND reply IS NOT NULL", id)) == 1


@pytest.mark.parametrize("away", [without_redis, without_postgres])
async def test_nothing_is_said_to_be_deleted_that_might_come_back(settings: Settings, away: Any):
    async with opened(settings) as place, opened(away(settings)) as torn:
        id = place.record(ASK, response(mint()))
        await place.keep(ASK, id)
        await drain(settings)
        with pytest.raises(Unavailable):
            await torn.conversations.delete_stored(f"resp_{id}", ADA)
        assert await place.finds(f"resp_{id}")


async def test_notes_of_deletions_go_with_what_they_are_about(settings: Settings):
    async with opened(replace(settings, keep_content_days=30)) as place:
        old, id = "01900000-0000-7000-8000-000000000001", await place.keep(ASK)
        await fetch(settings.database_url, "INSERT INTO deleted_responses (id, team_id) VALUES ($1, $2)", old, TEAM)
        await place.conversations.delete_stored(id, ADA)
        rows = await fetch(settings.database_url, "SELECT id::text AS id FROM deleted_responses")
        ids = {row["id"] for row in rows}
        assert id.removeprefix("resp_") in ids and old not in ids


async def test_what_is_too_large_for_redis_is_found_in_postgres(settings: Settings):
    async with opened(replace(settings, responses_max_bytes=100)) as place:
        id = place.record(ASK, response(mint()))
        await place.keep(ASK, id)
        looking = asyncio.create_task(place.finds(f"resp_{id}"))
        await asyncio.sleep(0.1)
        assert not looking.done()
        await drain(settings)
        assert await looking


@pytest.fixture
async def silenced(settings: Settings) -> AsyncGenerator[Place]:
    """With a Redis that takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with opened(replace(settings, redis_url=f"redis://127.0.0.1:{silent.getsockname()[1]}")) as place:
            yield place


async def test_a_silent_redis_delays_one_answer_a_second_and_fails_none(silenced: Place):
    began = time.monotonic()
    ids = [await silenced.keep(ASK) for _ in range(20)]
    assert time.monotonic() - began < 1.5 and len(set(ids)) == 20


async def test_who_leaves_while_redis_is_silent_is_gone_at_once(silenced: Place):
    looking = asyncio.create_task(silenced.conversations.find_response(f"resp_{mint()}", ADA))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert time.monotonic() - began < 0.1
