"""However a request ends, it ends once: the engine is let go, the exchange is recorded, the caller is told the truth."""

import asyncio
import contextlib
import json
import signal
import socket
import time
from typing import Any

import httpx
import openai
import pytest

from tests.stories import service as services
from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk, streaming
from tests.stories.service import Service

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


async def silent(asked: Asked) -> None:
    """Says nothing until the gateway hangs up."""
    async with asyncio.timeout(20):
        await asked.left.wait()


async def endless(asked: Asked) -> None:
    asked.begin_stream()
    while not asked.left.is_set():
        asked.frame(chunk({"content": "on and on "}))
        await asyncio.sleep(0.01)


async def test_an_answer_is_recorded_with_what_was_asked_and_said(client: httpx.AsyncClient, service: Service, engine: ScriptedEngine):
    answer = await client.post(
        CHAT,
        json={"model": "scripted", "messages": HI, "user": "ada", "metadata": {"app": "tests"}, "store": True},
        headers={"x-narthex-tags": '{"tenant": "blue"}'},
    )
    row = await service.recorded(answer.json()["id"])
    assert (row["outcome"], row["status"], row["finish_reason"], row["model"]) == ("answered", 200, "stop", "scripted")
    assert (row["input_tokens"], row["output_tokens"], row["served_provider"], row["served_model"]) == (3, 2, "first", "engine-model")
    assert (row["end_user"], row["tags"]) == ("ada", {"tenant": "blue"})
    assert json.loads(row["content"]["ask"])["messages"] == HI and row["content"]["reply"] == answer.text


async def test_an_episode_holds_its_inferences(client: httpx.AsyncClient, service: Service, engine: ScriptedEngine):
    first = (await client.post(CHAT, json={"model": "scripted", "messages": HI})).json()
    second = (
        await client.post(CHAT, json={"model": "scripted", "messages": HI}, headers={"x-narthex-episode-id": first["episode_id"]})
    ).json()
    await service.recorded(second["id"])
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        told = (await admin.get(f"/admin/v1/episodes/{first['episode_id']}")).json()
        assert [row["id"] for row in told["inferences"]] == [first["id"], second["id"]]
        listed = (await admin.get("/admin/v1/inferences", params={"limit": 2, "model": "scripted"})).json()
        assert [row["id"] for row in listed["data"]] == [second["id"], first["id"]] and listed["next"] == first["id"]


async def test_only_admins_see_what_was_recorded(client: httpx.AsyncClient):
    assert (await client.get("/admin/v1/inferences")).status_code == 403


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_before_the_answer_stops_the_engine_at_once(service: Service, engine: ScriptedEngine, stream: bool):
    engine.script = silent
    async with service.client() as client:
        asking = asyncio.create_task(client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": stream}))
        await _until(lambda: bool(engine.asked))
        left_at = time.monotonic()
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
    await asyncio.wait_for(engine.asked[0].left.wait(), 2)
    assert time.monotonic() - left_at < 1
    row = await _last(service, "scripted", "hung_up")
    assert (row["status"], row["served_provider"]) == (499, "first")


async def test_a_caller_who_leaves_within_the_answer_stops_the_engine_and_is_recorded_with_what_came(
    service: Service, engine: ScriptedEngine
):
    engine.script = endless
    async with (
        service.client() as client,
        client.stream("POST", CHAT, json={"model": "scripted", "messages": HI, "stream": True}) as answer,
    ):
        id = answer.headers["x-narthex-inference-id"]
        lines = answer.aiter_lines()
        for _ in range(5):
            await anext(lines)
    await asyncio.wait_for(engine.asked[0].left.wait(), 2)
    row = await service.recorded(id)
    assert (row["outcome"], row["status"]) == ("hung_up", 200) and "on and on" in row["content"]["reply"]


async def test_a_caller_who_never_reads_and_then_leaves_is_noticed(service: Service, engine: ScriptedEngine):
    async def flood(asked: Asked) -> None:
        asked.begin_stream()
        while not asked.left.is_set():
            asked.frame(chunk({"content": "x" * 10_000}))
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(asked.writer.drain(), 0.5)
            await asyncio.sleep(0)

    async def patient(asked: Asked) -> None:
        with contextlib.suppress(TimeoutError):
            await flood(asked)
        await silent(asked)

    engine.script = patient
    body = json.dumps({"model": "scripted", "messages": HI, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) as deaf:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.key}\r\ncontent-length: {len(body)}\r\n\r\n"
        deaf.sendall(head.encode() + body)
        await _until(lambda: bool(engine.asked))
        await asyncio.sleep(1)
        assert not engine.asked[0].left.is_set()
    await asyncio.wait_for(engine.asked[0].left.wait(), 3)
    assert (await _last(service, "scripted", "hung_up"))["status"] == 200


@pytest.mark.parametrize("ending", ["cut", "quiet end", "garbage", "error frame", "silence"])
async def test_an_engine_that_dies_midway_is_told_in_the_stream(service: Service, engine: ScriptedEngine, ending: str):
    async def script(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(chunk({"content": "Once upon"}))
        await asked.writer.drain()
        await asyncio.sleep(0.05)
        match ending:
            case "cut":
                asked.cut()
            case "quiet end":
                asked.end_stream()
            case "garbage":
                asked.frame(b'{"choices": 7')
                await silent(asked)
            case "error frame":
                asked.frame({"error": {"message": "out of memory", "code": 500}})
                await silent(asked)
            case _:
                await silent(asked)

    engine.script = script
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=0) as sdk:
        said = ""
        id = ""
        with pytest.raises(openai.APIError) as caught:
            async for frame in await sdk.chat.completions.create(model="scripted", messages=HI, stream=True):
                said, id = said + (frame.choices[0].delta.content or ""), frame.id
    assert said == "Once upon"
    assert caught.value.code in ("502", "504") and "127.0.0.1" not in caught.value.message
    row = await service.recorded(id)
    assert (
        (row["outcome"], row["status"]) == ("failed", 200)
        and "Once upon" in row["content"]["reply"]
        and '"error"' in row["content"]["reply"]
    )


async def test_a_stream_that_failed_does_not_say_done(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = streaming(chunk({"content": "x"}), {"error": {"message": "boom", "code": 500}})
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert '"x"' in answer.text and '"boom"' in answer.text and "[DONE]" not in answer.text


async def test_an_engine_that_does_not_answer_in_time_is_504(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = silent
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "backend_timeout")
    await asyncio.wait_for(engine.asked[0].left.wait(), 2)


async def test_an_engine_that_cannot_be_reached_is_502(client: httpx.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, json={"model": "unreachable", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "backend_unreachable")
    assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("failure", ["500", "429", "cut", "garbage", "error frame first", "done first", "silence"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["pair", "backed"])
async def test_the_next_target_serves_while_nothing_has_reached_the_caller(
    client: httpx.AsyncClient,
    service: Service,
    engine: ScriptedEngine,
    second_engine: ScriptedEngine,
    failure: str,
    stream: bool,
    model: str,
):
    if failure == "silence" and not stream:
        pytest.skip("a whole answer may take as long as the total allows")

    async def script(asked: Asked) -> None:
        match failure:
            case "cut":
                asked.cut()
            case "garbage":
                await asked.answer(200, b"oops")
            case "error frame first":
                await streaming({"error": {"message": "x", "code": 500}})(asked)
            case "done first":
                await streaming()(asked)
            case "silence":
                await silent(asked)
            case status:
                # At once: a longer rest than none would be felt by the next story.
                await asked.answer(int(status), b'{"error": {"message": "no"}}', "retry-after: 0\r\n")

    engine.script = script
    second_engine.script = streaming(*HELLO) if stream else Asked.whole
    answer = await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})
    assert answer.status_code == 200 and answer.headers["x-narthex-served"].startswith("second/")
    row = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert [attempt["provider"] for attempt in row["attempts"]] == ["first", "second"] and row["attempts"][0]["error"]


async def test_nothing_is_tried_again_once_a_byte_has_gone_to_the_caller(
    client: httpx.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = streaming(chunk({"content": "x"}), done=False)
    answer = await client.post(CHAT, json={"model": "pair", "messages": HI, "stream": True})
    assert '"error"' in answer.text and not second_engine.asked


async def test_a_request_that_is_wrong_is_not_tried_elsewhere(
    client: httpx.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    async def script(asked: Asked) -> None:
        await asked.answer(400, b'{"error": {"message": "wrong"}}')

    engine.script = script
    assert (await client.post(CHAT, json={"model": "pair", "messages": HI})).status_code == 400 and not second_engine.asked


async def test_a_kept_connection_serves_many_requests(client: httpx.AsyncClient, engine: ScriptedEngine):
    for _ in range(20):
        assert (await client.post(CHAT, json={"model": "scripted", "messages": HI})).status_code == 200
    assert len({asked.writer for asked in engine.asked}) <= 2 + 2  # two workers


async def test_sigterm_finishes_what_is_under_way_within_bounds_and_records_the_rest():
    own = services.start(drain_timeout_s=2)
    engine = ScriptedEngine()
    await engine.start()
    own.apply(f"""
        [providers.p]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.m]
        targets = [{{ provider = "p", model = "m" }}]
    """)

    async def script(asked: Asked) -> None:
        asked.begin_stream()
        for _ in range(10 if asked.body["messages"][0]["content"] == "short" else 1000):
            asked.frame(chunk({"content": "word "}))
            await asyncio.sleep(0.05)
        asked.frame(chunk({}, "stop"))
        asked.frame(b"[DONE]")
        asked.end_stream()

    engine.script = script

    async def ask(text: str) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
        async with own.client() as client, client.stream("POST", CHAT, json=body) as answer:
            try:
                return "".join([piece async for piece in answer.aiter_text()])
            except httpx.TransportError:
                return "broken off"

    short, long = asyncio.create_task(ask("short")), asyncio.create_task(ask("long"))
    await _until(lambda: len(engine.asked) == 2)
    own.process.send_signal(signal.SIGTERM)
    assert (await short).endswith("data: [DONE]\n\n")
    assert "[DONE]" not in await long
    await asyncio.to_thread(own.process.wait, 30)
    assert not list((own.home / "spool").glob("*.spool")), "the writer emptied the spool"
    await engine.stop()
    services.stop(own)


async def _last(service: Service, model: str, outcome: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        for _ in range(50):
            told = (await admin.get("/admin/v1/inferences", params={"limit": 1, "model": model})).json()["data"]
            if told and told[0]["outcome"] == outcome:
                return told[0]
            await asyncio.sleep(0.1)
    raise AssertionError(f"no {outcome} inference of {model} was recorded")


async def _until(claim: Any, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not claim():
            await asyncio.sleep(0.005)


async def test_an_account_that_is_used_up_is_not_asked_again_by_a_clients_own_retries(service: Service, engine: ScriptedEngine):
    async def spent(asked: Asked) -> None:
        await asked.answer(429, b'{"error": {"message": "You have used it up.", "type": "x", "code": "insufficient_quota"}}')

    # An account of its own: it is left alone for a while, which no other story is to feel.
    service.apply(f"""
        [providers.account]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models]
        account = {{ targets = [{{ provider = "account", model = "engine-model" }}] }}
    """)
    engine.script = spent
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=2) as sdk:
        with pytest.raises(openai.RateLimitError, match="used it up"):
            await sdk.chat.completions.create(model="account", messages=[{"role": "user", "content": "Hi"}])
    assert len(engine.asked) == 1
