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

from tests.support import service as services
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, stream_script
from tests.support.service import Service

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


async def wait_until_disconnected(request: ReceivedRequest) -> None:
    """Says nothing until the gateway hangs up."""
    async with asyncio.timeout(20):
        await request.disconnected.wait()


async def stream_forever(request: ReceivedRequest) -> None:
    request.begin_stream()
    while not request.disconnected.is_set():
        request.send_event(chunk({"content": "on and on "}))
        await asyncio.sleep(0.01)


async def test_inference_record_holds_request_response_usage_and_tags(client: httpx.AsyncClient, service: Service, engine: ScriptedEngine):
    answer = await client.post(
        CHAT,
        json={"model": "scripted", "messages": HI, "user": "ada", "metadata": {"app": "tests"}, "store": True},
        headers={"x-narthex-tags": '{"tenant": "blue"}'},
    )
    row = await service.wait_for_record(answer.json()["id"])
    assert (row["outcome"], row["status"], row["finish_reason"], row["model"]) == ("answered", 200, "stop", "scripted")
    assert (row["input_tokens"], row["output_tokens"], row["served_provider"], row["served_model"]) == (3, 2, "first", "engine-model")
    assert (row["end_user"], row["tags"]) == ("ada", {"tenant": "blue"})
    assert json.loads(row["content"]["ask"])["messages"] == HI and row["content"]["reply"] == answer.text


async def test_episode_and_inference_list_contain_its_inferences(client: httpx.AsyncClient, service: Service, engine: ScriptedEngine):
    first = (await client.post(CHAT, json={"model": "scripted", "messages": HI})).json()
    second = (
        await client.post(CHAT, json={"model": "scripted", "messages": HI}, headers={"x-narthex-episode-id": first["episode_id"]})
    ).json()
    await service.wait_for_record(second["id"])
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        episode = (await admin.get(f"/admin/v1/episodes/{first['episode_id']}")).json()
        assert [row["id"] for row in episode["inferences"]] == [first["id"], second["id"]]
        listed = (await admin.get("/admin/v1/inferences", params={"limit": 2, "model": "scripted"})).json()
        assert [row["id"] for row in listed["data"]] == [second["id"], first["id"]] and listed["next"] == first["id"]


async def test_caller_key_cannot_read_inference_records(client: httpx.AsyncClient):
    assert (await client.get("/admin/v1/inferences")).status_code == 403


@pytest.mark.parametrize("stream", [False, True])
async def test_client_disconnect_before_the_response_cancels_the_upstream_within_a_second(
    service: Service, engine: ScriptedEngine, stream: bool
):
    engine.script = wait_until_disconnected
    async with service.client() as client:
        pending = asyncio.create_task(client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": stream}))
        await _wait_until(lambda: bool(engine.requests))
        left_at = time.monotonic()
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), 2)
    assert time.monotonic() - left_at < 1
    row = await _wait_for_latest_record(service, "scripted", "hung_up")
    assert (row["status"], row["served_provider"]) == (499, "first")


async def test_client_disconnect_midstream_cancels_the_upstream_and_records_the_partial_response(service: Service, engine: ScriptedEngine):
    engine.script = stream_forever
    async with (
        service.client() as client,
        client.stream("POST", CHAT, json={"model": "scripted", "messages": HI, "stream": True}) as answer,
    ):
        id = answer.headers["x-narthex-inference-id"]
        lines = answer.aiter_lines()
        for _ in range(5):
            await anext(lines)
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), 2)
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["status"]) == ("hung_up", 200) and "on and on" in row["content"]["reply"]


async def test_disconnect_of_a_client_that_never_reads_cancels_the_upstream(service: Service, engine: ScriptedEngine):
    async def flood(request: ReceivedRequest) -> None:
        request.begin_stream()
        while not request.disconnected.is_set():
            request.send_event(chunk({"content": "x" * 10_000}))
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(request.writer.drain(), 0.5)
            await asyncio.sleep(0)

    async def flood_then_wait(request: ReceivedRequest) -> None:
        with contextlib.suppress(TimeoutError):
            await flood(request)
        await wait_until_disconnected(request)

    engine.script = flood_then_wait
    body = json.dumps({"model": "scripted", "messages": HI, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) as deaf:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.key}\r\ncontent-length: {len(body)}\r\n\r\n"
        deaf.sendall(head.encode() + body)
        await _wait_until(lambda: bool(engine.requests))
        await asyncio.sleep(1)
        assert not engine.requests[0].disconnected.is_set()
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), 3)
    assert (await _wait_for_latest_record(service, "scripted", "hung_up"))["status"] == 200


@pytest.mark.parametrize("ending", ["cut", "quiet end", "garbage", "error frame", "silence"])
async def test_upstream_failure_midstream_reaches_the_sdk_as_an_error_event_and_is_recorded(
    service: Service, engine: ScriptedEngine, ending: str
):
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "Once upon"}))
        await request.writer.drain()
        await asyncio.sleep(0.05)
        match ending:
            case "cut":
                request.reset_connection()
            case "quiet end":
                request.end_stream()
            case "garbage":
                request.send_event(b'{"choices": 7')
                await wait_until_disconnected(request)
            case "error frame":
                request.send_event({"error": {"message": "out of memory", "code": 500}})
                await wait_until_disconnected(request)
            case _:
                await wait_until_disconnected(request)

    engine.script = script
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=0) as sdk:
        text = ""
        id = ""
        with pytest.raises(openai.APIError) as caught:
            async for frame in await sdk.chat.completions.create(model="scripted", messages=HI, stream=True):
                text, id = text + (frame.choices[0].delta.content or ""), frame.id
    assert text == "Once upon"
    assert caught.value.code in ("502", "504") and "127.0.0.1" not in caught.value.message
    row = await service.wait_for_record(id)
    assert (
        (row["outcome"], row["status"]) == ("failed", 200)
        and "Once upon" in row["content"]["reply"]
        and '"error"' in row["content"]["reply"]
    )


async def test_failed_stream_ends_without_done(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(chunk({"content": "x"}), {"error": {"message": "boom", "code": 500}})
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert '"x"' in answer.text and '"boom"' in answer.text and "[DONE]" not in answer.text


async def test_first_token_timeout_is_504(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = wait_until_disconnected
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "backend_timeout")
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), 2)


async def test_unreachable_engine_is_502_without_its_address(client: httpx.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, json={"model": "unreachable", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "backend_unreachable")
    assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("failure", ["500", "429", "cut", "garbage", "error frame first", "done first", "silence"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["pair", "backed"])
async def test_next_target_serves_while_no_byte_has_reached_the_client(
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

    async def script(request: ReceivedRequest) -> None:
        match failure:
            case "cut":
                request.reset_connection()
            case "garbage":
                await request.respond(200, b"oops")
            case "error frame first":
                await stream_script({"error": {"message": "x", "code": 500}})(request)
            case "done first":
                await stream_script()(request)
            case "silence":
                await wait_until_disconnected(request)
            case status:
                # At once: a longer rest than none would be felt by the next story.
                await request.respond(int(status), b'{"error": {"message": "no"}}', "retry-after: 0\r\n")

    engine.script = script
    second_engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
    answer = await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})
    assert answer.status_code == 200 and answer.headers["x-narthex-served"].startswith("second/")
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert [attempt["provider"] for attempt in row["attempts"]] == ["first", "second"] and row["attempts"][0]["error"]


async def test_no_fallback_once_a_byte_has_reached_the_client(
    client: httpx.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = stream_script(chunk({"content": "x"}), done=False)
    answer = await client.post(CHAT, json={"model": "pair", "messages": HI, "stream": True})
    assert '"error"' in answer.text and not second_engine.requests


async def test_upstream_400_is_not_retried_on_another_target(
    client: httpx.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(400, b'{"error": {"message": "wrong"}}')

    engine.script = script
    assert (await client.post(CHAT, json={"model": "pair", "messages": HI})).status_code == 400 and not second_engine.requests


async def test_upstream_connections_are_reused_across_requests(client: httpx.AsyncClient, engine: ScriptedEngine):
    for _ in range(20):
        assert (await client.post(CHAT, json={"model": "scripted", "messages": HI})).status_code == 200
    assert len({request.writer for request in engine.requests}) <= 2 + 2  # two workers


async def test_sigterm_drains_short_streams_cuts_long_ones_and_empties_the_spool():
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

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        for _ in range(10 if request.body["messages"][0]["content"] == "short" else 1000):
            request.send_event(chunk({"content": "word "}))
            await asyncio.sleep(0.05)
        request.send_event(chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = script

    async def stream_text(text: str) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
        async with own.client() as client, client.stream("POST", CHAT, json=body) as answer:
            try:
                return "".join([piece async for piece in answer.aiter_text()])
            except httpx.TransportError:
                return "broken off"

    short, long = asyncio.create_task(stream_text("short")), asyncio.create_task(stream_text("long"))
    await _wait_until(lambda: len(engine.requests) == 2)
    own.process.send_signal(signal.SIGTERM)
    assert (await short).endswith("data: [DONE]\n\n")
    assert "[DONE]" not in await long
    await asyncio.to_thread(own.process.wait, 30)
    assert not list((own.home / "spool").glob("*.spool")), "the writer emptied the spool"
    await engine.stop()
    services.stop(own)


async def _wait_for_latest_record(service: Service, model: str, outcome: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        for _ in range(50):
            rows = (await admin.get("/admin/v1/inferences", params={"limit": 1, "model": model})).json()["data"]
            if rows and rows[0]["outcome"] == outcome:
                return rows[0]
            await asyncio.sleep(0.1)
    raise AssertionError(f"no {outcome} inference of {model} was recorded")


async def _wait_until(claim: Any, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not claim():
            await asyncio.sleep(0.005)


async def test_exhausted_quota_is_not_retried_upstream_by_sdk_retries(service: Service, engine: ScriptedEngine):
    async def refuse_for_quota(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"error": {"message": "You have used it up.", "type": "x", "code": "insufficient_quota"}}')

    # An account of its own: it is left alone for a while, which no other story is to feel.
    service.apply(f"""
        [providers.account]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models]
        account = {{ targets = [{{ provider = "account", model = "engine-model" }}] }}
    """)
    engine.script = refuse_for_quota
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=2) as sdk:
        with pytest.raises(openai.RateLimitError, match="used it up"):
            await sdk.chat.completions.create(model="account", messages=[{"role": "user", "content": "Hi"}])
    assert len(engine.requests) == 1
