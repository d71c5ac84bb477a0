"""Engines that deviate from the protocol: what is unambiguous is understood, and the rest is an error that names the deviation."""

import asyncio
import gzip
import json
from typing import Any

import httpx2
import pytest

from app.store.configuration import apply_file
from providers.canonical.sse import sse_frame
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, Script, ScriptedEngine, chunk, completion, stream_script

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]


async def send_chat(client: httpx2.AsyncClient, *, stream: bool, model: str = "scripted") -> httpx2.Response:
    return await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})


def chat_requests(engine: ScriptedEngine) -> list[ReceivedRequest]:
    """Returns the chats that the engine received, without the probes of what it is."""
    return [request for request in engine.requests if request.path == CHAT]


@pytest.mark.parametrize("kind", ["Text/Event-Stream; Charset=UTF-8", "text/plain", None])
async def test_stream_is_recognized_whatever_its_content_type(client: httpx2.AsyncClient, engine: ScriptedEngine, kind: str | None):
    async def script(request: ReceivedRequest) -> None:
        content_type = f"content-type: {kind}\r\n" if kind else ""
        request.write(f"HTTP/1.1 200 OK\r\n{content_type}transfer-encoding: chunked\r\n\r\n".encode())
        for frame in (*HELLO, b"[DONE]"):
            request.send_event(frame)
        request.end_stream()

    engine.script = script
    answer = await send_chat(client, stream=True)
    assert (answer.status_code, answer.text.endswith("data: [DONE]\n\n")) == (200, True) and '"lo."' in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_unknown_content_encoding_is_a_502_naming_it(client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool):
    async def script(request: ReceivedRequest) -> None:
        assert request.headers["accept-encoding"] == "identity"
        await request.respond(200, b"compressed", "content-type: application/json\r\ncontent-encoding: zstd\r\n")

    engine.script = script
    answer = await send_chat(client, stream=stream)
    assert answer.status_code == 502 and "zstd" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 400])
async def test_gzip_that_was_not_requested_is_decoded(client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool, status: int):
    async def script(request: ReceivedRequest) -> None:
        if status == 400:
            content_type, body = "application/json", b'{"error": {"message": "Hello, lo. was wrong."}}'
        elif stream:
            content_type = "text/event-stream"
            body = b"".join(sse_frame(each if isinstance(each, bytes) else json.dumps(each).encode()) for each in (*HELLO, b"[DONE]"))
        else:
            content_type, body = "application/json", json.dumps(completion("Hello, lo.")).encode()
        await request.respond(status, gzip.compress(body), f"content-type: {content_type}\r\ncontent-encoding: gzip\r\n")

    engine.script = script
    answer = await send_chat(client, stream=stream)
    assert answer.status_code == status and "lo." in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_events_labelled_as_json_are_read(client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool):
    async def script(request: ReceivedRequest) -> None:
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for at, frame in enumerate((*HELLO, b"[DONE]")):
            data = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
            request.send_chunk((b"" if at else b"\xef\xbb\xbf") + b"data: " + data + b"\n\n")
        request.end_stream()

    engine.script = script
    answer = await send_chat(client, stream=stream)
    assert answer.status_code == 200 and "lo." in answer.text
    assert answer.headers["content-type"].startswith("text/event-stream" if stream else "application/json")


@pytest.mark.parametrize("body", [b"\xef\xbb\xbf" + json.dumps(completion()).encode(), json.dumps({**completion(), "error": ""}).encode()])
async def test_byte_order_mark_and_an_empty_error_do_not_cost_a_response(client: httpx2.AsyncClient, engine: ScriptedEngine, body: bytes):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(200, body)

    engine.script = script
    answer = await send_chat(client, stream=False)
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == "Hello."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "body", [{}, {"message": "Internal failure"}, {"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]}]
)
async def test_fallback_serves_where_a_200_is_no_answer(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, stream: bool, body: Any
):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(body).encode())

    engine.script = script
    answer = await send_chat(client, stream=stream, model="backed")
    assert (answer.status_code, len(chat_requests(engine)), len(chat_requests(second_engine))) == (200, 1, 1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [-3, 2**31, 10**12])
async def test_invalid_token_count_costs_neither_response_nor_record(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, stream: bool, count: int
):
    async def script(request: ReceivedRequest) -> None:
        usage = {"prompt_tokens": count, "completion_tokens": 2}
        if not stream:
            await request.respond(200, json.dumps({**completion(), "usage": usage}).encode())
            return
        request.begin_stream()
        for frame in (chunk({"content": "Hello."}), chunk({}, "stop", usage=usage), b"[DONE]"):
            request.send_event(frame)
        request.end_stream()

    engine.script = script
    answer = await send_chat(client, stream=stream)
    assert answer.status_code == 200 and "Hello." in answer.text and '"error"' not in answer.text
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["outcome"], row["input_tokens"], row["output_tokens"]) == ("answered", None, 2)


async def test_upstream_connection_is_reused_although_the_final_chunk_comes_late(client: httpx2.AsyncClient, engine: ScriptedEngine):
    """Most engines write [DONE] and the final chunk separately."""
    finished = asyncio.Event()

    async def script(request: ReceivedRequest) -> None:
        finished.clear()
        request.begin_stream()
        for frame in (*HELLO, b"[DONE]"):
            request.send_event(frame)
        await request.writer.drain()
        await asyncio.sleep(0.02)
        request.end_stream()
        await request.writer.drain()
        finished.set()

    engine.script = script
    used: set[int] = set()
    for _ in range(20):  # the gateway waits for the final chunk only briefly, and a busy machine may send it too late
        engine.requests.clear()
        for _ in range(5):
            assert (await send_chat(client, stream=True)).text.endswith("data: [DONE]\n\n")
            await finished.wait()
            await asyncio.sleep(0.1)
        used = {id(request.writer) for request in chat_requests(engine)}
        if len(used) == 1:
            break
    assert len(used) == 1


async def test_running_stream_survives_reconfiguration_of_its_provider(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    def provider_on_port(port: int) -> str:
        return f"""
            [providers]
            moving = {{ adapter = "openai", base_url = "http://127.0.0.1:{port}" }}
            [models]
            moving = {{ targets = [{{ provider = "moving", model = "engine-model" }}] }}
        """

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "before"}))
        while not reconfigured.is_set():  # the silence timeout of this service is short
            await asyncio.sleep(0.1)
            request.send_event(chunk({"content": "."}))
        request.send_event(chunk({"content": "after"}, "stop"))
        request.end_stream()

    async def apply(toml: str) -> None:
        # In this process: starting a command could take longer than the total timeout of the stream.
        result = await apply_file.apply(database_url(service), toml, prune=False, confirm=lambda _: True, wait_s=30)
        assert "2 workers serve it" in result

    reconfigured = asyncio.Event()
    engine.script = script
    await apply(provider_on_port(engine.port))
    pending = asyncio.create_task(send_chat(client, stream=True, model="moving"))
    await wait_until(lambda: bool(chat_requests(engine)))
    await apply(provider_on_port(second_engine.port))
    assert (await send_chat(client, stream=False, model="moving")).status_code == 200
    reconfigured.set()
    text = (await pending).text
    assert "before" in text and "after" in text and text.endswith("data: [DONE]\n\n")
    assert (len(chat_requests(engine)), len(chat_requests(second_engine))) == (1, 1)


@pytest.mark.parametrize("usage", [[], "3", {"prompt_tokens": 3.5}, {"prompt_tokens": 3, "prompt_tokens_details": []}])
@pytest.mark.parametrize("stream", [False, True])
async def test_unreadable_usage_does_not_fail_the_response(client: httpx2.AsyncClient, engine: ScriptedEngine, usage: Any, stream: bool):
    async def respond(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps({**completion("Hello."), "usage": usage}).encode())

    engine.script = stream_script(chunk({"content": "Hello."}), chunk({}, "stop"), chunk(None, usage=usage)) if stream else respond
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": stream})
    assert answer.status_code == 200 and "Hello." in answer.text and "error" not in answer.text


async def test_done_marker_with_extra_space_ends_the_stream(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(chunk({"content": "Hello."}, "stop"), b" [DONE]", done=False)
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n") and "error" not in answer.text


CALLS: list[Any] = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]


def answer_with(reason: str, calls: list[Any] | None = None) -> Script:
    message: dict[str, Any] = {"tool_calls": calls} if calls else {"content": "Hello."}

    async def script(request: ReceivedRequest) -> None:
        if request.body.get("stream"):
            frames = chunk({"role": "assistant", **message}), chunk({}, reason)
            await stream_script(*frames)(request)
            return
        body = completion(None if calls else "Hello.", **message if calls else {})
        body["choices"][0]["finish_reason"] = reason
        await request.respond(200, json.dumps(body).encode())

    return script


def finish_reasons(answer: httpx2.Response, *, stream: bool) -> list[str]:
    bodies = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")] if stream else [answer.json()]
    return [choice["finish_reason"] for body in bodies for choice in body["choices"] if choice["finish_reason"]]


@pytest.mark.parametrize("stream", [False, True])
async def test_option_says_that_stop_after_calls_is_tool_calls(client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool):
    """OpenAI itself ends calls that a request forces by name with `stop`, so it is an option of the provider."""
    engine.script = answer_with("stop", CALLS)
    for model, expected in (("stops-after-calls", "tool_calls"), ("scripted", "stop")):
        answer = await send_chat(client, stream=stream, model=model)
        assert finish_reasons(answer, stream=stream) == [expected]
    engine.script = answer_with("stop")
    assert finish_reasons(await send_chat(client, stream=stream, model="stops-after-calls"), stream=stream) == ["stop"]


async def test_header_has_the_engines_own_word_for_an_ending_that_nobody_knows(client: httpx2.AsyncClient, engine: ScriptedEngine):
    for word, header in (("what_may_come", "what_may_come"), ("stop", None), ("max_tokens", None)):
        engine.script = answer_with(word)
        answer = await send_chat(client, stream=False)
        expected = {"stop": "stop", "max_tokens": "length", "what_may_come": "stop"}[word]
        assert (finish_reasons(answer, stream=False), answer.headers.get("x-narthex-finish-reason")) == ([expected], header)
        answer = await send_chat(client, stream=True)
        assert finish_reasons(answer, stream=True) == [expected] and "x-narthex-finish-reason" not in answer.headers
    for path, body in (("/v1/responses", {"input": "Hi", "store": False}), ("/v1/messages", {"max_tokens": 9, "messages": HI})):
        engine.script = answer_with("what_may_come")
        answer = await client.post(path, json={"model": "scripted", **body})
        assert answer.headers["x-narthex-finish-reason"] == "what_may_come", path
