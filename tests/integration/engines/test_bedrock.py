"""Bedrock through the gateway: which of its APIs serves a request, Claude's native stream in AWS event frames, errors within a stream."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.replay.hosts.aws_event_stream import event, exception
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CLAUDE, NOVA = "us.anthropic.claude-opus-4-6-v1", "amazon.nova-lite-v1:0"
HI: Any = [{"role": "user", "content": "Hi!"}]
TOOL: Any = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
ENDED = {"stop_reason": None, "stop_sequence": None}
MESSAGE: dict[str, Any] = {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude", "content": [], **ENDED}
CLAUDE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Olá!"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}},
]
CONVERSE_FRAMES = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Olá!"}}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, "metrics": {"latencyMs": 1}}),
]


def wrap_chunk(claude_event: dict[str, Any]) -> bytes:
    return event("chunk", {"bytes": base64.b64encode(json.dumps(claude_event).encode()).decode(), "p": "abc"})


@pytest.fixture(scope="module")
async def host(service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    service.apply(f"""
        [providers]
        bedrock = {{ adapter = "bedrock", base_url = "http://127.0.0.1:{engine.port}/aws" }}
        [models]
        "aws-claude" = {{ targets = [{{ provider = "bedrock", model = "{CLAUDE}" }}] }}
        "aws-nova" = {{ targets = [{{ provider = "bedrock", model = "{NOVA}" }}] }}
        "aws-either" = {{ targets = [{{ provider = "bedrock", model = "{NOVA}" }}], fallbacks = ["aws-claude"] }}
    """)
    yield engine
    await engine.stop()


@pytest.fixture
def bedrock(host: ScriptedEngine) -> ScriptedEngine:
    host.requests.clear()
    return host


def stream_frames(*frames: bytes) -> Any:
    """Returns a script that sends all frames, split in the middle of a frame."""

    async def script(request: ReceivedRequest) -> None:
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
        raw = b"".join(frames)
        for piece in (raw[:100], raw[100:]):
            request.send_chunk(piece)
            await request.writer.drain()
        request.end_stream()
        await request.writer.drain()

    return script


async def test_messages_caller_gets_the_native_claude_stream(bedrock: ScriptedEngine, claude: anthropic.AsyncAnthropic):
    bedrock.script = stream_frames(*map(wrap_chunk, CLAUDE_EVENTS))
    async with claude.messages.stream(model="aws-claude", max_tokens=9, messages=HI) as stream:
        texts = [text async for text in stream.text_stream]
        answer = await stream.get_final_message()
    assert texts == ["Olá!"] and answer.stop_reason == "end_turn" and (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 2)
    (request,) = bedrock.requests
    assert request.path == f"/aws/model/{CLAUDE}/invoke-with-response-stream"
    assert request.body == {"max_tokens": 9, "messages": HI, "anthropic_version": "bedrock-2023-05-31"}


async def test_chat_caller_reaches_claude_through_converse(bedrock: ScriptedEngine, sdk: openai.AsyncOpenAI):
    bedrock.script = stream_frames(*CONVERSE_FRAMES)
    stream = await sdk.chat.completions.create(model="aws-claude", messages=HI, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Olá!"
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [5]
    (request,) = bedrock.requests
    assert request.path == f"/aws/model/{CLAUDE}/converse-stream" and request.body == {
        "messages": [{"role": "user", "content": [{"text": "Hi!"}]}]
    }


async def test_field_converse_lacks_is_sent_to_claude_through_invoke_model(bedrock: ScriptedEngine, sdk: openai.AsyncOpenAI):
    bedrock.script = stream_frames(*map(wrap_chunk, CLAUDE_EVENTS))
    parameters: Any = {"messages": HI, "tools": [TOOL], "parallel_tool_calls": False}
    stream = await sdk.chat.completions.create(model="aws-claude", stream=True, **parameters)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]) == "Olá!"
    (request,) = bedrock.requests
    assert request.path.endswith("/invoke-with-response-stream") and request.body["tool_choice"]["disable_parallel_tool_use"] is True


@pytest.mark.parametrize("frames", [[wrap_chunk(each) for each in CLAUDE_EVENTS[:3]], []])
async def test_stream_exception_is_sent_after_the_data_before_it(frames: list[bytes], bedrock: ScriptedEngine, client: httpx2.AsyncClient):
    bedrock.script = stream_frames(*frames, exception("serviceUnavailableException", "It went away."))
    answer = await client.post("/v1/messages", json={"model": "aws-claude", "max_tokens": 9, "messages": HI, "stream": True})
    assert "It went away." in answer.text and ("text_delta" in answer.text) == bool(frames)
    assert (answer.status_code, "event: error" in answer.text) == ((200, True) if frames else (503, False))


def stream_endlessly(frame: bytes) -> Any:
    async def script(request: ReceivedRequest) -> None:
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
        while not request.disconnected.is_set():
            request.send_chunk(frame[:20])
            request.send_chunk(frame[20:])
            await asyncio.sleep(0.01)

    return script


@pytest.mark.parametrize(
    ("route", "frame", "model"),
    [
        ("/v1/chat/completions", CONVERSE_FRAMES[1], "aws-nova"),
        ("/v1/messages", b"".join(map(wrap_chunk, CLAUDE_EVENTS[:2])) + wrap_chunk(CLAUDE_EVENTS[2]) * 20, "aws-claude"),
    ],
)
async def test_client_disconnect_stops_the_bedrock_stream_and_charges_what_was_reserved(
    route: str, frame: bytes, model: str, bedrock: ScriptedEngine, service: Service
):
    """The next caller receives nothing of the stopped stream."""
    bedrock.script = stream_endlessly(frame)
    body = {"model": model, "max_tokens": 900, "messages": HI, "stream": True}
    async with service.client() as client, client.stream("POST", route, json=body) as answer:
        id = answer.headers["x-narthex-inference-id"]
        lines = answer.aiter_lines()
        received = "".join([await anext(lines) for _ in range(60)])
    await asyncio.wait_for(bedrock.requests[0].disconnected.wait(), GENEROUS_S)
    record = await service.wait_for_record(id)
    assert "Ol" in received and (record["outcome"], record["status"]) == ("disconnected", 200)
    assert "Ol" in record["content"]["response"] and (record["charged_output"], record["charge_basis"]) == (900, "reserved")
    bedrock.script = stream_frames(*(CONVERSE_FRAMES if model == "aws-nova" else map(wrap_chunk, CLAUDE_EVENTS)))
    async with service.client() as client:
        next_response = (await client.post(route, json=body)).text
    assert next_response.replace("\\u00e1", "á").count("Olá!") == 1 and "error" not in next_response


async def test_fallback_serves_an_exception_before_the_first_byte_but_not_after_it(bedrock: ScriptedEngine, client: httpx2.AsyncClient):
    refusal = exception("throttlingException", "Too many.")

    async def script(request: ReceivedRequest) -> None:
        begun = CONVERSE_FRAMES[:2] if request.body.get("inferenceConfig") else CONVERSE_FRAMES[:1]
        await stream_frames(*([*begun, refusal] if NOVA.partition(":")[0] in request.path else CONVERSE_FRAMES))(request)

    bedrock.script = script
    body = {"model": "aws-either", "messages": HI, "stream": True}
    served = await client.post("/v1/chat/completions", json=body)
    assert "Olá!" in served.text and "Too many." not in served.text and len(bedrock.requests) == 2
    bedrock.requests.clear()
    await asyncio.sleep(1.1)  # the credential's cooldown after an overload is one second
    cut = await client.post("/v1/chat/completions", json={**body, "max_tokens": 50})
    assert "Olá!" in cut.text and "Too many." in cut.text and len(bedrock.requests) == 1


async def test_s3_url_of_a_caller_is_refused(bedrock: ScriptedEngine, client: httpx2.AsyncClient):
    image = {"type": "image_url", "image_url": {"url": "s3://operators-bucket/plan.png"}}
    answer = await client.post("/v1/chat/completions", json={"model": "aws-nova", "messages": [{"role": "user", "content": [image]}]})
    assert answer.status_code in (400, 422) and "s3" in answer.json()["error"]["message"] and not bedrock.requests
