"""Failures that callers do not feel: retries, fallbacks by reason, and timeouts of models and targets. Nothing after the first byte."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module", autouse=True)
async def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}/v1" for engine in engines)
    service.apply(f"""
        [providers]
        limited = {{ adapter = "openai", base_url = "{one}" }}
        retrying = {{ adapter = "openai", base_url = "{one}" }}
        steady = {{ adapter = "openai", base_url = "{one}" }}
        pool = {{ adapter = "openai", base_url = "{one}" }}
        [models]
        limited = {{ targets = [{{ provider = "limited", model = "engine-model" }}], retries = 2 }}
        retried = {{ targets = [{{ provider = "retrying", model = "engine-model" }}], retries = 2 }}
        retried-pool = {{ targets = [{{ provider = "pool", model = "m", endpoints = ["{one}", "{two}"] }}], retries = 2 }}
        once-there = {{ targets = [{{ provider = "retrying", model = "engine-model", retries = 0 }}], retries = 2 }}
        small = {{ targets = [{{ provider = "steady", model = "engine-model" }}], fallbacks = ["large"], retries = 0 }}
        large = {{ targets = [{{ provider = "second", model = "engine-model" }}] }}
        [models.short]
        targets = [{{ provider = "steady", model = "engine-model" }}]
        fallbacks = ["large"]
        fallback_on = {{ large = ["context_length"] }}
        [models.strict]
        targets = [{{ provider = "steady", model = "engine-model" }}]
        fallbacks = ["large"]
        fallback_on = {{ large = ["content_refused"] }}
        [models.hurried]
        targets = [{{ provider = "steady", model = "engine-model", timeouts = {{ first_token_s = 0.3 }} }}]
        timeouts = {{ total_s = 1.0, silence_s = 0.5 }}
    """)


def error(status: int, message: str = "no", headers: str = "", **more: Any) -> Callable[[ReceivedRequest], Awaitable[None]]:
    async def script(request: ReceivedRequest) -> None:
        body = httpx2.Request("POST", "http://x", json={"error": {"message": message, **more}}).content
        await request.respond(status, body, f"content-type: application/json\r\n{headers}")

    return script


async def reset(request: ReceivedRequest) -> None:
    request.reset_connection()


async def speak_garbage(request: ReceivedRequest) -> None:
    request.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await request.writer.drain()
    request.reset_connection()


async def send_a_web_page(request: ReceivedRequest) -> None:
    await request.respond(200, b"<html>It works!</html>", "content-type: text/html\r\n")


async def end_before_the_first_event(request: ReceivedRequest) -> None:
    if not request.body.get("stream"):
        return await reset(request)
    request.begin_stream()
    request.end_stream()


def fail_first(times: int, failure: Callable[[ReceivedRequest], Awaitable[None]]) -> Callable[[ReceivedRequest], Awaitable[None]]:
    left = times

    async def script(request: ReceivedRequest) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            return await failure(request)
        if request.body.get("stream"):
            return await stream_script(*HELLO)(request)
        await request.respond_completion()

    return script


FAILURES = [error(500), error(503), error(429), error(502, headers="retry-after: 0\r\n"), reset, speak_garbage, send_a_web_page]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("failure", [*FAILURES, end_before_the_first_event], ids=lambda each: getattr(each, "__qualname__", "")[:30])
async def test_lone_endpoint_that_fails_is_tried_again(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, failure: Any, stream: bool
):
    engine.script = fail_first(2, failure)
    answer = await client.post(CHAT, json={"model": "retried", "messages": HI, "stream": stream})
    assert answer.status_code == 200 and "lo." in answer.text and '"error"' not in answer.text and len(engine.requests) == 3
    row = await service.wait_for_record(answer.headers["x-request-id"])
    # A connection that was used before may have been closed by the engine meanwhile: the transport replaces it without an attempt.
    assert 2 <= len(row["attempts"]) <= 3 and row["attempts"][-1]["error"] is None


async def test_failures_in_a_row_end_with_the_last_error(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = error(500, "it broke")
    answer = await client.post(CHAT, json={"model": "retried", "messages": HI})
    assert answer.status_code == 500 and "it broke" in answer.text and len(engine.requests) == 3


async def test_targets_own_number_of_retries_counts(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = error(500)
    answer = await client.post(CHAT, json={"model": "once-there", "messages": HI})
    assert answer.status_code == 500 and len(engine.requests) == 1


async def test_retry_waits_as_long_as_the_host_says(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = fail_first(1, error(429, headers="retry-after: 1\r\n"))
    begun = time.monotonic()
    answer = await client.post(CHAT, json={"model": "limited", "messages": HI})
    assert answer.status_code == 200 and time.monotonic() - begun >= 1


async def test_host_that_wants_a_long_wait_is_not_retried(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = error(429, headers="retry-after: 30\r\n")
    answer = await client.post(CHAT, json={"model": "limited", "messages": HI})
    assert (answer.status_code, answer.headers["retry-after"], len(engine.requests)) == (429, "30", 1)


@pytest.mark.parametrize("status", [400, 401, 402, 422])
async def test_errors_that_a_retry_cannot_help_are_not_retried(client: httpx2.AsyncClient, engine: ScriptedEngine, status: int):
    engine.script = error(status)
    await client.post(CHAT, json={"model": "retried", "messages": HI})
    assert len(engine.requests) == 1


async def test_other_endpoints_come_before_a_retry(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    engine.script = error(500)
    for _ in range(4):
        answer = await client.post(CHAT, json={"model": "retried-pool", "messages": HI})
        assert answer.status_code == 200
    assert len(engine.requests) <= 4 and len(second_engine.requests) == 4


async def test_nothing_is_retried_after_the_first_byte(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def break_midway(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "Once "}))
        await request.writer.drain()
        await asyncio.sleep(0.05)
        request.reset_connection()

    engine.script = break_midway
    answer = await client.post(CHAT, json={"model": "retried", "messages": HI, "stream": True})
    assert answer.text.count("Once ") == 1 and '"error"' in answer.text and len(engine.requests) == 1


async def test_prompt_that_is_too_long_goes_to_the_model_with_more_context(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = error(400, "This model's maximum context length is 10 tokens. However, your request has 20 input tokens.")
    for stream in (False, True):
        second_engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
        answer = await client.post(CHAT, json={"model": "short", "messages": HI, "stream": stream})
        assert answer.status_code == 200 and "lo." in answer.text
    assert len(engine.requests) == len(second_engine.requests) == 2


async def test_other_rejections_and_failures_do_not_use_that_fallback(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    for status, message in ((400, "temperature must be positive"), (500, "it broke")):
        engine.script = error(status, message)
        answer = await client.post(CHAT, json={"model": "short", "messages": HI})
        assert answer.status_code == status and message in answer.text
    assert not second_engine.requests


async def test_usual_fallback_does_not_take_a_prompt_that_is_too_long(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = error(400, "prompt is too long: 20 tokens > 10 maximum")
    answer = await client.post(CHAT, json={"model": "small", "messages": HI})
    assert answer.status_code == 400 and not second_engine.requests


async def test_refused_content_goes_to_the_fallback_for_it(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = error(400, "The response was filtered", code="content_filter")
    answer = await client.post(CHAT, json={"model": "strict", "messages": HI})
    assert answer.status_code == 200 and len(second_engine.requests) == 1

    async def refuse(request: ReceivedRequest) -> None:
        body = completion("I")
        body["choices"][0]["finish_reason"] = "content_filter"
        await request.respond(200, httpx2.Request("POST", "http://x", json=body).content)

    engine.script = refuse
    answer = await client.post(CHAT, json={"model": "strict", "messages": HI})
    assert answer.json()["choices"][0]["message"]["content"] == "Hello." and len(second_engine.requests) == 2
    row = await service.wait_for_record(answer.json()["id"])
    # Both hosts wrote, and bill, 2 tokens.
    assert (row["charged_input"], row["charged_output"], row["served_provider"]) == (6, 4, "second")


async def test_timeouts_of_targets_and_models_count(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def say_nothing(request: ReceivedRequest) -> None:
        await request.disconnected.wait()

    async def pause(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "Once "}))
        await request.disconnected.wait()

    engine.script = say_nothing
    for stream, least_s in ((True, 0.3), (False, 1.0)):
        begun = time.monotonic()
        answer = await client.post(CHAT, json={"model": "hurried", "messages": HI, "stream": stream})
        assert answer.status_code == 504 and least_s <= time.monotonic() - begun < least_s + 3
    engine.script = pause
    begun = time.monotonic()
    answer = await client.post(CHAT, json={"model": "hurried", "messages": HI, "stream": True})
    assert "Once " in answer.text and '"error"' in answer.text and time.monotonic() - begun < 3.5


async def test_slow_failure_is_not_repeated(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    service.apply(
        '[models.hurried-retried]\ntargets = [{ provider = "first", model = "engine-model" }]\nretries = 2\n'
        "timeouts = { first_token_s = 0.3 }"
    )

    async def say_nothing(request: ReceivedRequest) -> None:
        await request.disconnected.wait()

    engine.script = say_nothing
    answer = await client.post(CHAT, json={"model": "hurried-retried", "messages": HI, "stream": True})
    assert answer.status_code == 504 and len(engine.requests) == 1


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("retries = 6", "retries must be from 0 to 5"),
        ("timeouts = { total_s = 0 }", "timeouts.total_s must be more than 0"),
        ("timeouts = { total_s = 5, first_token_s = 9 }", "first_token_s = 9 is longer than total_s = 5"),
        ("timeouts = { connect_s = 5, first_token_s = 1 }", "connect_s = 5 is longer than first_token_s = 1"),
        ('fallback_on = { large = ["failure"] }', "is not one of its `fallbacks`"),
        ('fallbacks = ["large"]\nfallback_on = { large = [] }', "would never be used"),
        ('fallbacks = ["large"]\nfallback_on = { large = ["rain"] }', "rain"),
    ],
)
def test_contradictory_configuration_is_refused(service: Service, lines: str, fault: str):
    with pytest.raises(Exception, match=fault):
        service.apply(f'[models.wrong]\ntargets = [{{ provider = "first", model = "m" }}]\n{lines}')
