"""The Idempotency-Key header: a retry gets the same response, the engine runs once, and there is one record."""

import asyncio
import contextlib
import json
import secrets
from typing import Any

import httpx2
import openai
import pytest

from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections, database_url
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, Script, ScriptedEngine, chunk, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
REQUEST: Any = {"model": "scripted", "messages": HI}
STREAM: Any = {**REQUEST, "stream": True}
REPLAYED_HEADERS = ("content-type", "x-request-id", "request-id", "x-narthex-inference-id", "x-narthex-episode-id", "x-narthex-served")


def idempotency_headers(**more: str) -> dict[str, str]:
    return {"idempotency-key": secrets.token_hex(8), **more}


def chat_requests(engine: ScriptedEngine) -> list[ReceivedRequest]:
    """The chats that it received, without the gateway's probes."""
    return [request for request in engine.requests if request.path == CHAT]


async def respond_hello(request: ReceivedRequest) -> None:
    await (stream_script(*HELLO) if request.body.get("stream") else ReceivedRequest.respond_completion)(request)


async def respond_slowly(request: ReceivedRequest) -> None:
    await asyncio.sleep(0.3)
    await respond_hello(request)


def respond_after(event: asyncio.Event) -> Script:
    async def script(request: ReceivedRequest) -> None:
        await event.wait()
        await respond_hello(request)

    return script


async def stream_one_word_and_wait(request: ReceivedRequest) -> None:
    """Sends one word, and waits for the disconnect."""
    request.begin_stream()
    request.send_event(chunk({"content": "Once"}))
    async with asyncio.timeout(GENEROUS_S):
        await request.disconnected.wait()


@pytest.mark.parametrize("body", [REQUEST, STREAM], ids=["not streamed", "streamed"])
async def test_retry_replays_the_same_response_on_every_worker(service: Service, engine: ScriptedEngine, body: Any):
    engine.script = respond_hello
    headers = idempotency_headers()
    async with connections(service, 6) as callers:
        first, *retries = [await caller.post(CHAT, json=body, headers=headers) for caller in callers]
    assert first.status_code == 200 and "x-narthex-replayed" not in first.headers
    for retry in retries:
        assert (retry.status_code, retry.content, retry.headers["x-narthex-replayed"]) == (200, first.content, "true")
        assert {name: retry.headers[name] for name in REPLAYED_HEADERS} == {name: first.headers[name] for name in REPLAYED_HEADERS}
    assert len(chat_requests(engine)) == 1
    row = await service.wait_for_record(first.headers["x-narthex-inference-id"])
    assert row["outcome"] == "answered" and await records_of(service, row["episode_id"]) == [row["id"]]


async def test_sdk_reads_a_replayed_stream(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = respond_hello
    headers = idempotency_headers()
    streams = [await _streamed_text(sdk, headers) for _ in range(2)]
    assert streams[0] == streams[1] and streams[0][1] == "Hello." and len(chat_requests(engine)) == 1


async def _streamed_text(sdk: openai.AsyncOpenAI, headers: dict[str, str]) -> tuple[str, str]:
    frames = [frame async for frame in await sdk.chat.completions.create(model="scripted", messages=HI, stream=True, extra_headers=headers)]
    return frames[0].id, "".join(frame.choices[0].delta.content or "" for frame in frames if frame.choices)


async def test_requests_without_an_idempotency_key_run_separately(client: httpx2.AsyncClient, engine: ScriptedEngine):
    ids = {(await client.post(CHAT, json=REQUEST)).headers["x-narthex-inference-id"] for _ in range(2)}
    assert len(ids) == 2 == len(chat_requests(engine))


@pytest.mark.parametrize("body", [REQUEST, STREAM], ids=["not streamed", "streamed"])
async def test_concurrent_requests_with_one_key_wait_for_the_first(service: Service, engine: ScriptedEngine, body: Any):
    engine.script = respond_slowly
    headers = idempotency_headers()
    async with connections(service, 6) as callers:
        answers = await asyncio.gather(*(caller.post(CHAT, json=body, headers=headers) for caller in callers))
    assert len({answer.content for answer in answers}) == 1 == len(chat_requests(engine))
    assert sorted("x-narthex-replayed" in answer.headers for answer in answers) == [False] + [True] * 5


async def test_refuse_mode_gets_409_while_the_first_request_is_in_flight(client: httpx2.AsyncClient, engine: ScriptedEngine):
    may_respond = asyncio.Event()
    engine.script = respond_after(may_respond)
    headers = idempotency_headers()
    first = asyncio.create_task(client.post(CHAT, json=REQUEST, headers=headers))
    await wait_until(lambda: bool(chat_requests(engine)))
    refused = await client.post(CHAT, json=REQUEST, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert not first.done() and (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_in_flight")
    may_respond.set()
    id = (await first).headers["x-narthex-inference-id"]
    assert refused.json()["error"]["details"]["inference_id"] == id and len(chat_requests(engine)) == 1


async def test_another_body_under_the_same_key_is_422(client: httpx2.AsyncClient, engine: ScriptedEngine):
    headers = idempotency_headers()
    await client.post(CHAT, json=REQUEST, headers=headers)
    refused = await client.post(CHAT, json={**REQUEST, "temperature": 0.5}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused") and len(chat_requests(engine)) == 1


async def test_failed_request_runs_again_under_its_key(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b'{"error": {"message": "no"}}')

    engine.script = fail
    headers = idempotency_headers()
    failed = await client.post(CHAT, json=REQUEST, headers=headers)
    engine.script = respond_hello
    answered = await client.post(CHAT, json=REQUEST, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert (failed.status_code, answered.status_code) == (500, 200) and "x-narthex-replayed" not in answered.headers
    assert (await service.wait_for_record(failed.headers["x-narthex-inference-id"]))["outcome"] == "failed"


async def test_stream_failed_midway_runs_again_under_its_key(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(chunk({"content": "x"}), {"error": {"message": "boom", "code": 500}})
    headers = idempotency_headers()
    failed = await client.post(CHAT, json=STREAM, headers=headers)
    engine.script = respond_hello
    answered = await client.post(CHAT, json=STREAM, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert '"boom"' in failed.text and answered.text.endswith("data: [DONE]\n\n") and len(chat_requests(engine)) == 2


async def test_waiting_request_runs_if_the_first_client_disconnects(service: Service, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        if len(chat_requests(engine)) > 1:
            await respond_hello(request)
            return
        await stream_one_word_and_wait(request)

    engine.script = script
    headers = idempotency_headers()
    async with connections(service, 2) as (first, second):
        async with first.stream("POST", CHAT, json=STREAM, headers=headers) as running:
            lines = running.aiter_lines()
            await anext(lines)
            waiting = asyncio.create_task(second.post(CHAT, json=STREAM, headers=headers))
            await asyncio.sleep(0.2)
            assert not waiting.done() and len(chat_requests(engine)) == 1
            id = running.headers["x-narthex-inference-id"]
        answered = await asyncio.wait_for(waiting, GENEROUS_S)
    assert answered.text.endswith("data: [DONE]\n\n") and "x-narthex-replayed" not in answered.headers
    assert (await service.wait_for_record(id))["outcome"] == "disconnected"


async def test_key_revoked_while_its_request_waits_is_401(service: Service, engine: ScriptedEngine):
    key = await keys.create_key(database_url(service), "revoked while waiting")

    async def endless(request: ReceivedRequest) -> None:
        request.begin_stream()
        while not request.disconnected.is_set():
            request.send_event(chunk({"content": "more "}))
            await asyncio.sleep(0.1)

    engine.script = endless
    headers = idempotency_headers()
    async with connections(service, 10, key) as (first, second, *others):

        async def is_revoked_on_every_worker() -> bool:
            responses = await asyncio.gather(*(caller.get("/v1/models") for caller in others))
            return {response.status_code for response in responses} == {401}

        async with first.stream("POST", CHAT, json=STREAM, headers=headers) as running:
            lines = running.aiter_lines()
            await anext(lines)
            waiting = asyncio.create_task(second.post(CHAT, json=STREAM, headers=headers))
            await asyncio.sleep(0.2)
            assert await keys.revoke_key(database_url(service), key)
            await wait_until(is_revoked_on_every_worker)
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, GENEROUS_S)).status_code == 401
    assert len(chat_requests(engine)) == 1


async def test_disconnect_while_waiting_changes_nothing(service: Service, engine: ScriptedEngine):
    may_respond = asyncio.Event()
    engine.script = respond_after(may_respond)
    headers = idempotency_headers()
    async with connections(service, 3) as (first, second, third):
        running = asyncio.create_task(first.post(CHAT, json=REQUEST, headers=headers))
        await wait_until(lambda: bool(chat_requests(engine)))
        waiting = asyncio.create_task(second.post(CHAT, json=REQUEST, headers=headers))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        may_respond.set()
        assert (await third.post(CHAT, json=REQUEST, headers=headers)).content == (await running).content
    assert len(chat_requests(engine)) == 1


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([("idempotency-key", "")], "1 to 255"),
        ([("idempotency-key", "x" * 256)], "1 to 255"),
        ([("idempotency-key", "a"), ("idempotency-key", "b")], "2 times"),
        ([("idempotency-key", "a"), ("x-narthex-idempotency", "perhaps")], "wait or refuse"),
    ],
)
async def test_invalid_idempotency_headers_are_400(
    client: httpx2.AsyncClient, engine: ScriptedEngine, headers: list[tuple[str, str]], message: str
):
    refused = await client.post(CHAT, content=json.dumps(REQUEST), headers=headers)
    assert refused.status_code == 400 and message in refused.json()["error"]["message"] and not chat_requests(engine)


async def test_malformed_request_does_not_claim_its_key(client: httpx2.AsyncClient, engine: ScriptedEngine):
    headers = idempotency_headers(**{"x-narthex-idempotency": "refuse"})
    for _ in range(2):
        assert (await client.post(CHAT, content=b"{", headers=headers)).status_code == 400
    assert (await client.post(CHAT, json=REQUEST, headers=headers)).status_code == 200


async def records_of(service: Service, episode_id: str) -> list[str]:
    async with service.admin_client() as admin:
        return [row["id"] for row in (await admin.get(f"/admin/v1/episodes/{episode_id}")).json()["inferences"]]
