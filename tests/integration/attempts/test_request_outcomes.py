"""The ways in which a request can end: the upstream connection is released, the exchange recorded, and the caller gets a true response."""

import asyncio
import contextlib
import json
import socket
from typing import Any

import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


async def wait_until_disconnected(request: ReceivedRequest) -> None:
    """Sends nothing."""
    async with asyncio.timeout(GENEROUS_S):
        await request.disconnected.wait()


async def stream_forever(request: ReceivedRequest) -> None:
    request.begin_stream()
    while not request.disconnected.is_set():
        request.send_event(chunk({"content": "on and on "}))
        await asyncio.sleep(0.01)


async def test_inference_record_holds_request_response_usage_and_tags(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    answer = await client.post(
        CHAT,
        json={"model": "scripted", "messages": HI, "user": "ada", "metadata": {"app": "tests"}, "store": True},
        headers={"x-narthex-tags": '{"tenant": "blue"}'},
    )
    row = await service.wait_for_record(answer.json()["id"])
    assert (row["outcome"], row["status"], row["finish_reason"], row["model"]) == ("answered", 200, "stop", "scripted")
    assert (row["input_tokens"], row["output_tokens"], row["served_provider"], row["served_model"]) == (3, 2, "first", "engine-model")
    assert (row["end_user"], row["tags"]) == ("ada", {"tenant": "blue"})
    assert json.loads(row["content"]["request"])["messages"] == HI and row["content"]["response"] == answer.text


async def test_episode_and_inference_list_contain_its_inferences(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    first = (await client.post(CHAT, json={"model": "scripted", "messages": HI})).json()
    second = (
        await client.post(CHAT, json={"model": "scripted", "messages": HI}, headers={"x-narthex-episode-id": first["episode_id"]})
    ).json()
    await service.wait_for_record(second["id"])
    async with service.admin_client() as admin:
        episode = (await admin.get(f"/admin/v1/episodes/{first['episode_id']}")).json()
        assert [row["id"] for row in episode["inferences"]] == [first["id"], second["id"]]
        listed = (await admin.get("/admin/v1/inferences", params={"limit": 2, "model": "scripted"})).json()
        assert [row["id"] for row in listed["data"]] == [second["id"], first["id"]] and listed["next"] == first["id"]


async def test_caller_key_cannot_read_inference_records(client: httpx2.AsyncClient):
    assert (await client.get("/admin/v1/inferences")).status_code == 403


@pytest.mark.parametrize("stream", [False, True])
async def test_client_disconnect_before_the_response_cancels_the_upstream_at_once(service: Service, engine: ScriptedEngine, stream: bool):
    """The upstream is cancelled before any timeout of the gateway, which would be recorded as a failure."""
    engine.script = wait_until_disconnected
    first_id = uuid7.mint()
    async with service.client() as client:
        pending = asyncio.create_task(client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": stream}))
        await wait_until(lambda: bool(engine.requests))
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), GENEROUS_S)
    row = await _wait_for_record_after(service, first_id)
    assert row["outcome"] == "disconnected"
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
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), GENEROUS_S)
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["status"]) == ("disconnected", 200) and "on and on" in row["content"]["response"]


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
    first_id = uuid7.mint()
    body = json.dumps({"model": "scripted", "messages": HI, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) as unread:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.key}\r\ncontent-length: {len(body)}\r\n\r\n"
        unread.sendall(head.encode() + body)
        await wait_until(lambda: bool(engine.requests))
        await asyncio.sleep(1)
        assert not engine.requests[0].disconnected.is_set()
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), GENEROUS_S)
    row = await _wait_for_record_after(service, first_id)
    assert (row["outcome"], row["status"]) == ("disconnected", 200)


@pytest.mark.parametrize("ending", ["cut", "quiet end", "garbage", "error frame", "silence"])
async def test_upstream_failure_midstream_reaches_the_sdk_as_an_error_event_and_is_recorded(
    service: Service, engine: ScriptedEngine, ending: str
):
    is_received = asyncio.Event()

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "Once upon"}))
        await request.writer.drain()
        await is_received.wait()
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
                is_received.set()
    assert text == "Once upon"
    assert caught.value.code == {"error frame": "500", "silence": "504"}.get(ending, "502") and "127.0.0.1" not in caught.value.message
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["status"]) == ("failed", 200)
    assert "Once upon" in row["content"]["response"] and '"error"' in row["content"]["response"]


async def test_failed_stream_ends_without_done(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(chunk({"content": "x"}), {"error": {"message": "boom", "code": 500}})
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert '"x"' in answer.text and '"boom"' in answer.text and "[DONE]" not in answer.text


async def test_first_token_timeout_is_504(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = wait_until_disconnected
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": True})
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "backend_timeout")
    await asyncio.wait_for(engine.requests[0].disconnected.wait(), GENEROUS_S)


async def test_unreachable_engine_is_502_without_its_address(client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, json={"model": "unreachable", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "backend_unreachable")
    assert "127.0.0.1" not in answer.text


@pytest.mark.parametrize("failure", ["500", "429", "cut", "garbage", "error frame first", "done first", "silence"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["pair", "backed"])
async def test_next_target_serves_while_no_byte_has_reached_the_client(
    client: httpx2.AsyncClient,
    service: Service,
    engine: ScriptedEngine,
    second_engine: ScriptedEngine,
    failure: str,
    stream: bool,
    model: str,
):
    if failure == "silence" and not stream:
        pytest.skip("a response that is not streamed is only bounded by the total timeout")

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
                # Retry after 0 s: a cooldown would affect the next test.
                await request.respond(int(status), b'{"error": {"message": "no"}}', "retry-after: 0\r\n")

    engine.script = script
    second_engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
    answer = await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})
    assert answer.status_code == 200 and answer.headers["x-narthex-served"].startswith("second/")
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert [attempt["provider"] for attempt in row["attempts"]] == ["first", "second"] and row["attempts"][0]["error"]


async def test_no_fallback_once_a_byte_has_reached_the_client(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script = stream_script(chunk({"content": "x"}), done=False)
    answer = await client.post(CHAT, json={"model": "pair", "messages": HI, "stream": True})
    assert '"error"' in answer.text and not second_engine.requests


async def test_upstream_400_is_not_retried_on_another_target(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(400, b'{"error": {"message": "wrong"}}')

    engine.script = script
    assert (await client.post(CHAT, json={"model": "pair", "messages": HI})).status_code == 400 and not second_engine.requests


async def test_upstream_connections_are_reused_across_requests(client: httpx2.AsyncClient, engine: ScriptedEngine):
    for _ in range(20):
        assert (await client.post(CHAT, json={"model": "scripted", "messages": HI})).status_code == 200
    assert len({request.writer for request in engine.requests}) <= 2 + 2  # two workers


async def test_exhausted_quota_is_not_retried_upstream_by_sdk_retries(service: Service, engine: ScriptedEngine):
    async def refuse_for_quota(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"error": {"message": "You have used it up.", "type": "x", "code": "insufficient_quota"}}')

    # A provider of its own: its credential is in cooldown afterwards.
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


async def _wait_for_record_after(service: Service, id: str) -> dict[str, Any]:
    """The latest inference of the model `scripted`, once one later than this id is recorded."""
    rows: list[dict[str, Any]] = []
    async with service.admin_client() as admin:

        async def is_recorded() -> bool:
            rows[:] = (await admin.get("/admin/v1/inferences", params={"limit": 1, "model": "scripted"})).json()["data"]
            return bool(rows) and rows[0]["id"] > id

        await wait_until(is_recorded)
    return rows[0]
