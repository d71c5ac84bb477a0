"""A fleet of six engines, of which some are killed, hang, are slow, reset, speak garbage or are overloaded: callers see none of it."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk
from tests.support.scripted_fleet import (
    CHAT,
    HI,
    WORDS,
    answer,
    assert_nothing_is_left,
    drop_streams,
    fleet_configuration,
    send_many,
    send_request,
    socket_count,
    wait_until_idle,
)

SIZE = 6
Script = Callable[[ReceivedRequest], Awaitable[None]]


@pytest.fixture(scope="module")
async def fleet() -> AsyncGenerator[list[ScriptedEngine]]:
    engines = [ScriptedEngine() for _ in range(SIZE)]
    for engine in engines:
        await engine.start()
    yield engines
    for engine in engines:
        await engine.stop()


@pytest.fixture(scope="module")
async def service(fleet: list[ScriptedEngine]) -> AsyncGenerator[Service]:
    """A service of one process, whose numbers are then all there are. A breaker opens only where a test wants it to."""
    running = services.start(
        workers=1, first_token_timeout_s=2, total_timeout_s=5, breaker_failures=1000, load_interval_s=0, probe_interval_s=0.3
    )
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in fleet[:2])
    adapters = ("vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "ollama")
    providers = [f'[providers.{each}]\nadapter = "{each}"\nbase_url = "{one}"' for each in adapters]
    models = [f'[models.{each}]\ntargets = [{{ provider = "{each}", model = "m", endpoints = ["{one}", "{two}"] }}]' for each in adapters]
    running.apply("\n".join([fleet_configuration(fleet), *providers, *models]))
    yield running
    services.stop(running)


@pytest.fixture(autouse=True)
def quick_answers(fleet: list[ScriptedEngine]) -> None:
    for engine in fleet:
        engine.requests.clear()
        engine.script = answer


async def hang(request: ReceivedRequest) -> None:
    await request.disconnected.wait()


async def reset(request: ReceivedRequest) -> None:
    request.reset_connection()


async def speak_garbage(request: ReceivedRequest) -> None:
    request.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    await request.writer.drain()
    request.reset_connection()


async def speak_another_dialect(request: ReceivedRequest) -> None:
    body = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Not for you."}]}
    await request.respond(200, json.dumps(body).encode())


async def be_slow(request: ReceivedRequest) -> None:
    await asyncio.sleep(0.5)
    await answer(request)


def refuse(status: int, body: Any = None, headers: str = "") -> Script:
    async def script(request: ReceivedRequest) -> None:
        await request.respond(status, json.dumps(body or {}).encode(), f"content-type: application/json\r\n{headers}")

    return script


@pytest.mark.parametrize("fault", [reset, speak_garbage, speak_another_dialect, hang, be_slow, refuse(500), refuse(503), refuse(429)])
async def test_half_of_the_fleet_with_a_fault_is_not_felt(service: Service, fleet: list[ScriptedEngine], fault: Script):
    for engine in fleet[::2]:
        engine.script = fault
    await send_many(service, 40)
    await wait_until_idle(service)


async def test_half_of_the_fleet_gone_is_not_felt(service: Service, fleet: list[ScriptedEngine]):
    for engine in fleet[::2]:
        await engine.stop()
    try:
        await send_many(service, 40)
    finally:
        for engine in fleet[::2]:
            await engine.start()
    await wait_until_idle(service)


async def test_whole_fleet_gone_is_an_error_and_back_is_served_again(service: Service, fleet: list[ScriptedEngine]):
    for engine in fleet:
        await engine.stop()
    try:
        async with service.client() as client:
            refused = await client.post(CHAT, json={"model": "fleet", "messages": HI})
        assert refused.status_code == 502 and "cannot be reached" in refused.json()["error"]["message"]
    finally:
        for engine in fleet:
            await engine.start()
    await send_many(service, 40)


async def test_engines_that_come_and_go_all_the_time_are_not_felt(service: Service, fleet: list[ScriptedEngine]):
    """Another engine fails at each moment.

    If more of them failed, some request would find one at each of its eight attempts, sooner or later.
    """
    over = asyncio.Event()

    async def disturb() -> None:
        rng = random.Random(1)
        while not over.is_set():
            rng.choice(fleet).script = rng.choice([reset, refuse(500), speak_garbage])
            await asyncio.sleep(0.02)
            for engine in fleet:
                engine.script = answer

    disturbing = asyncio.create_task(disturb())
    try:
        await send_many(service, 200)
    finally:
        over.set()
        await disturbing


# As each engine says that it is overloaded (reference: docs/sources.md#host-errors and the engines' sources).
OVERLOADS = [
    ("vllm", refuse(503, {"object": "error", "message": "Server is overloaded", "type": "ServiceUnavailableError", "code": 503})),
    ("sglang", refuse(503, {"error": {"message": "The request queue is full.", "type": "service_unavailable_error", "code": 503}})),
    ("lmdeploy", refuse(503, {"object": "error", "message": "Too many requests", "code": 503})),
    ("tgi", refuse(429, {"error": "Model is overloaded", "error_type": "overloaded"})),
    ("llamacpp", refuse(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})),
    ("ollama", refuse(503, {"error": "server busy, please try again.  maximum pending requests exceeded"})),
]


@pytest.mark.parametrize(("engine_name", "overload"), OVERLOADS, ids=[name for name, _ in OVERLOADS])
async def test_overload_in_each_engines_way_is_not_felt(service: Service, fleet: list[ScriptedEngine], engine_name: str, overload: Script):
    fleet[0].script = overload
    async with service.client() as client:
        for _ in range(6):
            assert await send_request(client, engine_name, stream=False) == "".join(WORDS)
    assert fleet[0].requests and fleet[1].requests


async def test_stream_that_hangs_midway_ends_with_an_error_and_frees_its_engine(service: Service, fleet: list[ScriptedEngine]):
    async def hang_midway(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "One"}))
        await hang(request)

    for engine in fleet:
        engine.script = hang_midway
    service.apply('[models.impatient]\ntargets = [{ provider = "fleet", model = "m", timeouts = { silence_s = 0.3 } }]')
    async with (
        service.client() as client,
        client.stream("POST", CHAT, json={"model": "impatient", "messages": HI, "stream": True}) as response,
    ):
        lines = [line async for line in response.aiter_lines() if line]
    assert "One" in lines[0] and "error" in json.loads(lines[-1][6:])
    await wait_until_idle(service)
    await wait_until(lambda: all(request.disconnected.is_set() for engine in fleet for request in engine.requests))


async def test_refused_response_frees_its_engine(service: Service, fleet: list[ScriptedEngine]):
    """It is complete, and nobody gets it."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "content_filter"}]}
    service.apply(
        """
        [models.refused]
        targets = [{ provider = "fleet", model = "m" }]
        fallbacks = ["fleet"]
        fallback_on = { fleet = ["content_refused"] }
        """
    )

    async def refuse_once(request: ReceivedRequest) -> None:
        if len(fleet[0].requests) == 1:
            await request.respond(200, json.dumps(body).encode())
        else:
            await answer(request)

    fleet[0].script = refuse_once
    async with service.client() as client:
        assert await send_request(client, "refused", stream=False) == "".join(WORDS)
    await wait_until_idle(service)


async def test_slow_reader_does_not_hold_others_up(service: Service, fleet: list[ScriptedEngine]):
    """It reads nothing of a long stream; others are served meanwhile by the same engines and the same process."""

    async def write_much(request: ReceivedRequest) -> None:
        if "long" not in request.body["messages"][0]["content"]:
            await answer(request)
            return
        request.begin_stream()
        while not request.disconnected.is_set():
            request.send_event(chunk({"content": "x" * 10_000}))
            try:
                await asyncio.wait_for(request.writer.drain(), 1)
            except TimeoutError:  # the gateway reads no more than its caller
                await request.disconnected.wait()

    for engine in fleet:
        engine.script = write_much
    body = {"model": "fleet", "messages": [{"role": "user", "content": "long"}], "stream": True}
    async with service.client() as slow, slow.stream("POST", CHAT, json=body):
        await send_many(service, 40)
    await wait_until_idle(service)


async def test_dropped_streams_leave_nothing_behind(service: Service, fleet: list[ScriptedEngine]):
    """tests/long/kills/test_dropped_streams.py does the same with ten thousand."""
    await send_many(service, 20)
    before = socket_count(service)
    await drop_streams(service, fleet, 400)
    await assert_nothing_is_left(service, fleet, before)
