"""Bedrock as its callers meet it: which of its APIs they are given, Claude's own stream out of AWS's frames, and what fails within one."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.exchanges.hosts.aws_frames import event, exception
from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

CLAUDE, NOVA = "us.anthropic.claude-opus-4-6-v1", "amazon.nova-lite-v1:0"
HI: Any = [{"role": "user", "content": "Hi!"}]
TOOL: Any = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
ENDED = {"stop_reason": None, "stop_sequence": None}
MESSAGE: dict[str, Any] = {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude", "content": [], **ENDED}
NATIVE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Olá!"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}},
]
CONVERSED = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Olá!"}}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, "metrics": {"latencyMs": 1}}),
]


def wrapped(told: dict[str, Any]) -> bytes:
    return event("chunk", {"bytes": base64.b64encode(json.dumps(told).encode()).decode(), "p": "abc"})


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
    host.asked.clear()
    return host


def streams(*frames: bytes) -> Any:
    """All of them, cut in the midst of one."""

    async def script(asked: Asked) -> None:
        asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
        raw = b"".join(frames)
        for piece in (raw[:100], raw[100:]):
            asked.piece(piece)
            await asked.writer.drain()
        asked.end_stream()
        await asked.writer.drain()

    return script


async def test_anthropics_callers_get_claudes_own_stream(bedrock: ScriptedEngine, claude: anthropic.AsyncAnthropic):
    bedrock.script = streams(*map(wrapped, NATIVE))
    async with claude.messages.stream(model="aws-claude", max_tokens=9, messages=HI) as stream:
        said = [text async for text in stream.text_stream]
        answer = await stream.get_final_message()
    assert said == ["Olá!"] and answer.stop_reason == "end_turn" and (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 2)
    (asked,) = bedrock.asked
    assert asked.path == f"/aws/model/{CLAUDE}/invoke-with-response-stream"
    assert asked.body == {"max_tokens": 9, "messages": HI, "anthropic_version": "bedrock-2023-05-31"}


async def test_openais_callers_reach_claude_by_converse(bedrock: ScriptedEngine, sdk: openai.AsyncOpenAI):
    bedrock.script = streams(*CONVERSED)
    stream = await sdk.chat.completions.create(model="aws-claude", messages=HI, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Olá!"
    assert [chunk.usage.total_tokens for chunk in chunks if chunk.usage] == [5]
    (asked,) = bedrock.asked
    assert asked.path == f"/aws/model/{CLAUDE}/converse-stream" and asked.body == {
        "messages": [{"role": "user", "content": [{"text": "Hi!"}]}]
    }


async def test_what_converse_cannot_say_goes_to_claude_in_its_own_words(bedrock: ScriptedEngine, sdk: openai.AsyncOpenAI):
    bedrock.script = streams(*map(wrapped, NATIVE))
    asking: Any = {"messages": HI, "tools": [TOOL], "parallel_tool_calls": False}
    stream = await sdk.chat.completions.create(model="aws-claude", stream=True, **asking)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]) == "Olá!"
    (asked,) = bedrock.asked
    assert asked.path.endswith("/invoke-with-response-stream") and asked.body["tool_choice"]["disable_parallel_tool_use"] is True
    with pytest.raises(openai.UnprocessableEntityError, match="one call"):
        await sdk.chat.completions.create(model="aws-nova", **asking)


@pytest.mark.parametrize("frames", [[wrapped(each) for each in NATIVE[:3]], []])
async def test_an_exception_in_the_stream_is_told_after_what_came(frames: list[bytes], bedrock: ScriptedEngine, client: httpx.AsyncClient):
    bedrock.script = streams(*frames, exception("serviceUnavailableException", "It went away."))
    answer = await client.post("/v1/messages", json={"model": "aws-claude", "max_tokens": 9, "messages": HI, "stream": True})
    assert "It went away." in answer.text and ("text_delta" in answer.text) == bool(frames)
    assert (answer.status_code, "event: error" in answer.text) == ((200, True) if frames else (503, False))


def endless(frame: bytes) -> Any:
    async def script(asked: Asked) -> None:
        asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n")
        while not asked.left.is_set():
            asked.piece(frame[:20])
            asked.piece(frame[20:])
            await asyncio.sleep(0.01)

    return script


@pytest.mark.parametrize(
    ("route", "frame", "model"),
    [
        ("/v1/chat/completions", CONVERSED[1], "aws-nova"),
        ("/v1/messages", b"".join(map(wrapped, NATIVE[:2])) + wrapped(NATIVE[2]) * 20, "aws-claude"),
    ],
)
async def test_a_caller_who_leaves_within_the_frames_stops_bedrock_and_pays_for_what_came(
    route: str, frame: bytes, model: str, bedrock: ScriptedEngine, service: Service
):
    """And whoever asks next hears nothing of it."""
    bedrock.script = endless(frame)
    body = {"model": model, "max_tokens": 900, "messages": HI, "stream": True}
    async with service.client() as client, client.stream("POST", route, json=body) as answer:
        id = answer.headers["x-narthex-inference-id"]
        lines = answer.aiter_lines()
        heard = "".join([await anext(lines) for _ in range(60)])
    await asyncio.wait_for(bedrock.asked[0].left.wait(), 2)
    row = await service.recorded(id)
    assert "Ol" in heard and (row["outcome"], row["status"]) == ("hung_up", 200)
    assert "Ol" in row["content"]["reply"] and row["charged_output"] >= 10
    bedrock.script = streams(*(CONVERSED if model == "aws-nova" else map(wrapped, NATIVE)))
    async with service.client() as client:
        told = (await client.post(route, json=body)).text
    assert told.replace("\\u00e1", "á").count("Olá!") == 1 and "error" not in told


async def test_another_is_asked_for_an_exception_before_the_first_byte_and_for_none_after_it(
    bedrock: ScriptedEngine, client: httpx.AsyncClient
):
    refusal = exception("throttlingException", "Too many.")

    async def script(asked: Asked) -> None:
        begun = CONVERSED[:2] if asked.body.get("inferenceConfig") else CONVERSED[:1]
        await streams(*([*begun, refusal] if NOVA.partition(":")[0] in asked.path else CONVERSED))(asked)

    bedrock.script = script
    body = {"model": "aws-either", "messages": HI, "stream": True}
    served = await client.post("/v1/chat/completions", json=body)
    assert "Olá!" in served.text and "Too many." not in served.text and len(bedrock.asked) == 2
    bedrock.asked.clear()
    await asyncio.sleep(1.1)  # for so long the credential rests
    cut = await client.post("/v1/chat/completions", json={**body, "max_tokens": 50})
    assert "Olá!" in cut.text and "Too many." in cut.text and len(bedrock.asked) == 1


async def test_a_caller_has_nothing_read_from_the_operators_buckets(bedrock: ScriptedEngine, client: httpx.AsyncClient):
    image = {"type": "image_url", "image_url": {"url": "s3://operators-bucket/plan.png"}}
    answer = await client.post("/v1/chat/completions", json={"model": "aws-nova", "messages": [{"role": "user", "content": [image]}]})
    assert answer.status_code in (400, 422) and "s3" in answer.json()["error"]["message"] and not bedrock.asked
