"""Idempotency-Key as callers use it: a retry is told the same, the engine is asked once, and there is one record."""

import asyncio
import contextlib
import json
import secrets
from typing import Any

import httpx
import openai
import pytest

from tests.stories.looking import connections
from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk, streaming
from tests.stories.service import Service

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
WHOLE: Any = {"model": "scripted", "messages": HI}
STREAM: Any = {**WHOLE, "stream": True}
NAMES = ("content-type", "x-request-id", "request-id", "x-narthex-inference-id", "x-narthex-episode-id", "x-narthex-served")


def keyed(**more: str) -> dict[str, str]:
    return {"idempotency-key": secrets.token_hex(8), **more}


def chats(engine: ScriptedEngine) -> list[Asked]:
    """What the engine was asked, but for what the fleet asks of it now and then."""
    return [asked for asked in engine.asked if asked.path == CHAT]


async def hello(asked: Asked) -> None:
    await (streaming(*HELLO) if asked.body.get("stream") else Asked.whole)(asked)


async def slow(asked: Asked) -> None:
    await asyncio.sleep(0.3)
    await hello(asked)


async def begin(asked: Asked) -> None:
    """Says one word, and waits to be let go of."""
    asked.begin_stream()
    asked.frame(chunk({"content": "Once"}))
    async with asyncio.timeout(20):
        await asked.left.wait()


@pytest.mark.parametrize("body", [WHOLE, STREAM], ids=["whole", "streamed"])
async def test_a_retry_is_told_the_same_by_every_worker(service: Service, engine: ScriptedEngine, body: Any):
    engine.script = hello
    headers = keyed()
    async with connections(service, 6) as callers:
        first, *retries = [await caller.post(CHAT, json=body, headers=headers) for caller in callers]
    assert first.status_code == 200 and "x-narthex-replayed" not in first.headers
    for retry in retries:
        assert (retry.status_code, retry.content, retry.headers["x-narthex-replayed"]) == (200, first.content, "true")
        assert {name: retry.headers[name] for name in NAMES} == {name: first.headers[name] for name in NAMES}
    assert len(chats(engine)) == 1
    row = await service.recorded(first.headers["x-narthex-inference-id"])
    assert row["outcome"] == "answered" and await records_of(service, row["episode_id"]) == [row["id"]]


async def test_the_sdk_reads_a_stream_that_is_told_again(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = hello
    headers = keyed()
    said = [await _said(sdk, headers) for _ in range(2)]
    assert said[0] == said[1] and said[0][1] == "Hello." and len(chats(engine)) == 1


async def _said(sdk: openai.AsyncOpenAI, headers: dict[str, str]) -> tuple[str, str]:
    frames = [frame async for frame in await sdk.chat.completions.create(model="scripted", messages=HI, stream=True, extra_headers=headers)]
    return frames[0].id, "".join(frame.choices[0].delta.content or "" for frame in frames if frame.choices)


async def test_requests_without_a_key_are_each_their_own(client: httpx.AsyncClient, engine: ScriptedEngine):
    ids = {(await client.post(CHAT, json=WHOLE)).headers["x-narthex-inference-id"] for _ in range(2)}
    assert len(ids) == 2 == len(chats(engine))


@pytest.mark.parametrize("body", [WHOLE, STREAM], ids=["whole", "streamed"])
async def test_one_in_flight_is_waited_for(service: Service, engine: ScriptedEngine, body: Any):
    engine.script = slow
    headers = keyed()
    async with connections(service, 6) as callers:
        answers = await asyncio.gather(*(caller.post(CHAT, json=body, headers=headers) for caller in callers))
    assert len({answer.content for answer in answers}) == 1 == len(chats(engine))
    assert sorted("x-narthex-replayed" in answer.headers for answer in answers) == [False] + [True] * 5


async def test_one_in_flight_is_told_at_once_to_who_would_not_wait(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = slow
    headers = keyed()
    first = asyncio.create_task(client.post(CHAT, json=WHOLE, headers=headers))
    await _until(lambda: bool(chats(engine)))
    refused = await client.post(CHAT, json=WHOLE, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert not first.done() and (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_in_flight")
    id = (await first).headers["x-narthex-inference-id"]
    assert refused.json()["error"]["details"]["inference_id"] == id and len(chats(engine)) == 1


async def test_another_body_under_the_same_key_is_422(client: httpx.AsyncClient, engine: ScriptedEngine):
    headers = keyed()
    await client.post(CHAT, json=WHOLE, headers=headers)
    refused = await client.post(CHAT, json={**WHOLE, "temperature": 0.5}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused") and len(chats(engine)) == 1


async def test_what_failed_is_run_again(client: httpx.AsyncClient, service: Service, engine: ScriptedEngine):
    async def failing(asked: Asked) -> None:
        await asked.answer(500, b'{"error": {"message": "no"}}')

    engine.script = failing
    headers = keyed()
    failed = await client.post(CHAT, json=WHOLE, headers=headers)
    engine.script = hello
    answered = await client.post(CHAT, json=WHOLE, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert (failed.status_code, answered.status_code) == (502, 200) and "x-narthex-replayed" not in answered.headers
    assert (await service.recorded(failed.headers["x-narthex-inference-id"]))["outcome"] == "failed"


async def test_a_stream_that_failed_midway_is_run_again(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = streaming(chunk({"content": "x"}), {"error": {"message": "boom", "code": 500}})
    headers = keyed()
    failed = await client.post(CHAT, json=STREAM, headers=headers)
    engine.script = hello
    answered = await client.post(CHAT, json=STREAM, headers={**headers, "x-narthex-idempotency": "refuse"})
    assert '"boom"' in failed.text and answered.text.endswith("data: [DONE]\n\n") and len(chats(engine)) == 2


async def test_if_the_first_one_leaves_who_waits_runs(service: Service, engine: ScriptedEngine):
    async def script(asked: Asked) -> None:
        if len(chats(engine)) > 1:
            await hello(asked)
            return
        await begin(asked)

    engine.script = script
    headers = keyed()
    async with connections(service, 2) as (first, second):
        async with first.stream("POST", CHAT, json=STREAM, headers=headers) as begun:
            lines = begun.aiter_lines()
            await anext(lines)
            waiting = asyncio.create_task(second.post(CHAT, json=STREAM, headers=headers))
            await asyncio.sleep(0.2)
            assert not waiting.done() and len(chats(engine)) == 1
            id = begun.headers["x-narthex-inference-id"]
        answered = await asyncio.wait_for(waiting, 3)
    assert answered.text.endswith("data: [DONE]\n\n") and "x-narthex-replayed" not in answered.headers
    assert (await service.recorded(id))["outcome"] == "hung_up"


async def test_a_key_that_is_revoked_while_its_request_waits_is_refused(service: Service, engine: ScriptedEngine):
    made = await asyncio.to_thread(service.run, "keys", "create", "--team", "soon gone", "--quiet")
    key = made.stdout.strip()

    async def endless(asked: Asked) -> None:
        asked.begin_stream()
        while not asked.left.is_set():
            asked.frame(chunk({"content": "more "}))
            await asyncio.sleep(0.1)

    engine.script = endless
    headers = keyed()
    async with connections(service, 2, key) as (first, second):
        async with first.stream("POST", CHAT, json=STREAM, headers=headers) as begun:
            lines = begun.aiter_lines()
            await anext(lines)
            waiting = asyncio.create_task(second.post(CHAT, json=STREAM, headers=headers))
            revoked = await asyncio.to_thread(service.run, "keys", "revoke", key.rsplit("-", 1)[0][:15])
            assert revoked.returncode == 0, revoked.stderr
            await asyncio.sleep(0.5)
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, 3)).status_code == 401
    assert len(chats(engine)) == 1


async def test_who_leaves_while_waiting_changes_nothing(service: Service, engine: ScriptedEngine):
    engine.script = slow
    headers = keyed()
    async with connections(service, 3) as (first, second, third):
        running = asyncio.create_task(first.post(CHAT, json=WHOLE, headers=headers))
        await _until(lambda: bool(chats(engine)))
        waiting = asyncio.create_task(second.post(CHAT, json=WHOLE, headers=headers))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert (await third.post(CHAT, json=WHOLE, headers=headers)).content == (await running).content
    assert len(chats(engine)) == 1


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([("idempotency-key", "")], "1 to 255"),
        ([("idempotency-key", "x" * 256)], "1 to 255"),
        ([("idempotency-key", "a"), ("idempotency-key", "b")], "2 times"),
        ([("idempotency-key", "a"), ("x-narthex-idempotency", "perhaps")], "wait or refuse"),
    ],
)
async def test_headers_that_are_none_are_400(client: httpx.AsyncClient, engine: ScriptedEngine, headers: list[tuple[str, str]], says: str):
    refused = await client.post(CHAT, content=json.dumps(WHOLE), headers=headers)
    assert refused.status_code == 400 and says in refused.json()["error"]["message"] and not chats(engine)


async def test_a_malformed_request_does_not_keep_its_key(client: httpx.AsyncClient, engine: ScriptedEngine):
    headers = keyed(**{"x-narthex-idempotency": "refuse"})
    for _ in range(2):
        assert (await client.post(CHAT, content=b"{", headers=headers)).status_code == 400
    assert (await client.post(CHAT, json=WHOLE, headers=headers)).status_code == 200


async def records_of(service: Service, episode_id: str) -> list[str]:
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        return [row["id"] for row in (await admin.get(f"/admin/v1/episodes/{episode_id}")).json()["inferences"]]


async def _until(claim: Any, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not claim():
            await asyncio.sleep(0.01)
