"""Large requests are worked on in a thread: the event loop serves others meanwhile."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from app.gateway.large_body.large_requests import LargeRequests, is_large
from app.gateway.responses_state.history import ConversationTurn, load_history
from app.settings import Settings
from app.store.content_packing import pack, unpack_beside_loop
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.dialects.catalogue import CHAT_DIALECTS

CHAT = DIALECTS["openai_chat"]


@pytest.fixture
async def large_requests() -> AsyncGenerator[LargeRequests]:
    requests = LargeRequests(Settings())
    yield requests
    requests.close()


def _chat(messages: int, chars: int = 10) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "a" * chars}] * messages}).encode()


@pytest.mark.parametrize(
    ("raw", "large"),
    [
        (_chat(1, 60_000), False),
        (_chat(100, 1_000), False),
        (_chat(3_000), True),
        (_chat(1_200), True),
        (_chat(300), False),
        (_chat(1, 300_000), True),
    ],
)
def test_body_is_large_by_its_bytes_or_its_objects(raw: bytes, large: bool) -> None:
    assert is_large(raw) is large


async def test_event_loop_runs_while_a_large_request_is_parsed_and_read(large_requests: LargeRequests) -> None:
    raw = _chat(9_000, 100)

    async def parse_and_read() -> int:
        request = await large_requests.parse(CHAT, raw)
        return len((await large_requests.run(CHAT_DIALECTS["openai_chat"].read_request, request.body)).messages)

    work = asyncio.create_task(parse_and_read())
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert await work == 9_000
    assert turns > 10  # in the event loop itself, the work would be done within two


async def test_large_body_over_a_cap_is_refused_and_a_small_one_is_not_counted(large_requests: LargeRequests) -> None:
    with pytest.raises(InvalidRequest, match="10001 `messages`"):
        await large_requests.parse(CHAT, _chat(10_001))
    few = LargeRequests(Settings(max_messages=10))
    assert (await few.parse(CHAT, _chat(20))).model == "m"
    few.close()


async def test_small_body_of_many_objects_is_not_counted_in_the_thread_either() -> None:
    few = LargeRequests(Settings(max_messages=10))
    assert is_large(_chat(1_200)) and (await few.parse(CHAT, _chat(1_200))).model == "m"
    few.close()


async def test_event_loop_runs_while_a_large_earlier_turn_is_read(large_requests: LargeRequests) -> None:
    items = [{"type": "message", "role": "user", "content": "a" * 1_000}] * 30_000
    stored = ConversationTurn("resp_1", Body.read(json.dumps({"input": items}).encode()), b'{"output": []}')

    async def find(id: str) -> ConversationTurn:
        return stored

    work = asyncio.create_task(load_history("resp_1", find, 100_000_000, large_requests))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await work).items) == 30_000
    assert turns > 10


async def test_event_loop_runs_while_a_few_bytes_unpack_to_many() -> None:
    packed = pack(b"a" * 50_000_000)
    assert len(packed) < 256 * 1024
    work = asyncio.create_task(unpack_beside_loop(packed))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await work) == 50_000_000
    assert turns > 10
