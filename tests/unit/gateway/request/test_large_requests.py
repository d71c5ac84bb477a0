"""Large requests are worked on in a thread: the event loop serves others meanwhile."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncGenerator

import pytest

from app.gateway.large_body.body_size import is_large
from app.gateway.large_body.large_requests import LargeRequests, TeamLargeRequests
from app.gateway.responses_state.history import ConversationTurn, load_history
from app.settings import Settings
from app.store.formats.content_packing import pack, unpack_beside_loop
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.transport.loop_turns import LoopTurns
from tests.support.processes.wait_until import GENEROUS_S

CHAT = DIALECTS["openai_chat"]


@pytest.fixture
async def large_requests() -> AsyncGenerator[TeamLargeRequests]:
    large_requests = LargeRequests(Settings(), LoopTurns())
    yield large_requests.of_team("team")
    large_requests.close()


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


async def test_event_loop_runs_while_a_large_request_is_parsed_and_read(large_requests: TeamLargeRequests) -> None:
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


async def test_large_body_over_a_cap_is_refused_and_a_small_one_is_not_counted(large_requests: TeamLargeRequests) -> None:
    with pytest.raises(InvalidRequest, match="10001 `messages`"):
        await large_requests.parse(CHAT, _chat(10_001))
    few = LargeRequests(Settings(max_messages=10), LoopTurns())
    assert (await few.of_team("team").parse(CHAT, _chat(20))).model == "m"
    few.close()


async def test_small_body_of_many_objects_is_not_counted_in_the_thread_either() -> None:
    few = LargeRequests(Settings(max_messages=10), LoopTurns())
    assert is_large(_chat(1_200)) and (await few.of_team("team").parse(CHAT, _chat(1_200))).model == "m"
    few.close()


async def test_teams_take_turns_and_a_cancelled_request_gives_its_turn_away() -> None:
    large_requests = LargeRequests(Settings(), LoopTurns())
    first_runs, is_released = threading.Event(), threading.Event()
    order: list[str] = []

    def hold() -> None:
        first_runs.set()
        assert is_released.wait(GENEROUS_S)

    first = asyncio.create_task(large_requests.of_team("flooding").run(hold))
    await asyncio.to_thread(first_runs.wait, GENEROUS_S)
    flood = [asyncio.create_task(large_requests.of_team("flooding").run(order.append, f"flooding {n}")) for n in range(4)]
    other = [asyncio.create_task(large_requests.of_team("other").run(order.append, f"other {n}")) for n in range(2)]
    await asyncio.sleep(0)
    first.cancel()  # its work goes on, and nothing else may begin
    flood[1].cancel()
    await asyncio.sleep(0.01)
    assert order == []
    is_released.set()
    await asyncio.gather(flood[0], *flood[2:], *other)
    assert [each for each in order if "flooding" in each] == ["flooding 0", "flooding 2", "flooding 3"]
    assert [each for each in order if "other" in each] == ["other 0", "other 1"] and order[-1] == "flooding 3"
    await large_requests.of_team("other").run(order.append, "last")
    large_requests.close()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions slow down all threads while one has a profiler")
async def test_work_of_a_team_is_done_while_longer_work_of_others_goes_on() -> None:
    large_requests = LargeRequests(Settings(), LoopTurns())
    is_done = threading.Event()
    rounds: dict[str, int] = {"hostile": 0, "other hostile": 0}

    def compute(team: str) -> None:
        while not is_done.is_set():
            rounds[team] += sum(map(len, [str(number) for number in range(100)])) > 0

    async with asyncio.timeout(GENEROUS_S):
        long = [asyncio.create_task(large_requests.of_team(team).run(compute, team)) for team in rounds]
        for _ in range(10):
            await large_requests.of_team("quiet").run(CHAT.parse_request, _chat(3_000))
        is_done.set()
        await asyncio.gather(*long)
    assert min(rounds.values()) > 0.2 * max(rounds.values())
    large_requests.close()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions slow down all threads while one has a profiler")
async def test_pauses_are_never_longer_than_what_was_computed(large_requests: TeamLargeRequests, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr("app.gateway.large_body.large_requests.time.sleep", pauses.append)

    def wait() -> float:
        began_s = time.thread_time()
        for _ in range(10):
            sleep(0.01)  # as a thread does on a busy machine
        return time.thread_time() - began_s

    computed_s = await large_requests.run(wait)
    assert len(pauses) >= 10 and sum(pauses) <= computed_s + 0.001


async def test_event_loop_runs_while_a_large_earlier_turn_is_read(large_requests: TeamLargeRequests) -> None:
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


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions slow down all threads while one has a profiler")
async def test_thread_pauses_after_each_long_call_into_c_and_only_then(
    large_requests: TeamLargeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("app.gateway.large_body.large_requests.time.sleep", pauses.append)
    monkeypatch.setattr("app.gateway.large_body.large_requests._LONG_CALL_S", 0.02)
    data = bytes(100_000_000)

    def search() -> None:
        for _ in range(3):
            data.count(b"a" * 2)

    await large_requests.run(search)
    assert len(pauses) >= 3 and sum(pauses) >= 0.03
    count = len(pauses)
    await large_requests.run(_chat, 10)
    assert len(pauses) - count <= 1  # none, but on a machine that stops for so long
    assert threading.gettrace() is None and sys.getprofile() is None
