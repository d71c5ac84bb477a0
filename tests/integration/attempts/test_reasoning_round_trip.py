"""Reasoning in conversations of unmodified SDKs with engines of another dialect: what only the engine understands returns to it."""

import json
from typing import Any

import anthropic
import openai
import pytest
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessage

from providers.canonical.chat import Reasoning, Text
from tests.conformance.sdk_responses import dump_for_next_request
from tests.conformance.situations import (
    ANTHROPIC,
    ANTHROPIC_SIGNED,
    ANTHROPIC_SIGNED_SECOND,
    CHAT,
    HELLO,
    PARIS,
    REDACTED,
    RESPONSES,
    RESPONSES_ENCRYPTED,
    RESPONSES_ENCRYPTED_ALONE,
    ROME,
    Situation,
)
from tests.support.scripted_dialects import MODELS, respond_with
from tests.support.scripted_engine import ScriptedEngine

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
RESPONSES_TOOLS: Any = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
ANTHROPIC_TOOLS: Any = [{"name": "get_weather", "input_schema": SCHEMA}]
RESULTS = {"call_paris": "18 degrees", "call_rome": "25 degrees"}

DONE = Situation(name="done", parts=(Text("Rome is warmer."),))
SIGNED = (
    Situation(name="first", parts=(ANTHROPIC_SIGNED, HELLO, PARIS), finish="tool_calls"),
    Situation(name="second", parts=(ANTHROPIC_SIGNED_SECOND, REDACTED, ROME), finish="tool_calls"),
    DONE,
)
ENCRYPTED = (
    Situation(name="first", parts=(RESPONSES_ENCRYPTED, HELLO, PARIS), finish="tool_calls"),
    Situation(name="second", parts=(RESPONSES_ENCRYPTED_ALONE, ROME), finish="tool_calls"),
    DONE,
)
PLAIN = (
    Situation(name="first", parts=(Reasoning("Paris first."), PARIS), finish="tool_calls"),
    Situation(name="second", parts=(Reasoning("Then Rome."), ROME), finish="tool_calls"),
    DONE,
)


async def converse_in_chat(sdk: openai.AsyncOpenAI, model: str, *, streamed: bool) -> str:
    """Converses as OpenAI's guide to chat says: the message is appended unchanged, then the result of each call."""
    messages: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    while True:
        if streamed:
            async with sdk.chat.completions.stream(model=model, messages=messages, tools=CHAT_TOOLS) as stream:
                message: Any = (await stream.get_final_completion()).choices[0].message
        else:
            answer = await sdk.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS)
            message = answer.choices[0].message
        messages.append(message)
        for call in message.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.id]})
        if not message.tool_calls:
            return message.content


async def converse_in_responses(sdk: openai.AsyncOpenAI, model: str, *, streamed: bool) -> str:
    """Converses as OpenAI's guide to Responses says: the output is appended unchanged."""
    input: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    while True:
        if streamed:
            async with sdk.responses.stream(model=model, input=input, tools=RESPONSES_TOOLS, store=False) as stream:
                answer: Any = await stream.get_final_response()
        else:
            answer = await sdk.responses.create(model=model, input=input, tools=RESPONSES_TOOLS, store=False)
        input += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        input += [{"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.call_id]} for call in calls]
        if not calls:
            return answer.output_text


async def converse_in_messages(sdk: anthropic.AsyncAnthropic, model: str, *, streamed: bool) -> str:
    """Converses as Anthropic's guides say: the content is appended unchanged."""
    messages: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    while True:
        if streamed:
            async with sdk.messages.stream(model=model, max_tokens=900, messages=messages, tools=ANTHROPIC_TOOLS) as stream:
                answer: Any = await stream.get_final_message()
        else:
            answer = await sdk.messages.create(model=model, max_tokens=900, messages=messages, tools=ANTHROPIC_TOOLS)
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[-1].text
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.id]} for call in calls]
        messages.append({"role": "user", "content": results})


streamed_or_whole = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
every_caller_api = pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])


async def converse(caller: str, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, model: str, *, streamed: bool) -> str:
    match caller:
        case "openai_chat":
            return await converse_in_chat(sdk, model, streamed=streamed)
        case "openai_responses":
            return await converse_in_responses(sdk, model, streamed=streamed)
        case _:
            return await converse_in_messages(claude, model, streamed=streamed)


@every_caller_api
@streamed_or_whole
async def test_signed_and_redacted_thinking_returns_unchanged_to_an_anthropic_engine(
    caller: str, streamed: bool, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engine: ScriptedEngine
):
    engine.script = respond_with(*SIGNED)
    assert await converse(caller, sdk, claude, MODELS[ANTHROPIC], streamed=streamed) == "Rome is warmer."
    assistant_messages = [message for message in engine.requests[-1].body["messages"] if message["role"] == "assistant"]
    first, second = assistant_messages[0]["content"], assistant_messages[1]["content"]
    assert [each for each in first if each["type"] == "thinking"] == [
        {"type": "thinking", "thinking": "Let me think about Paris.", "signature": "EqQBCkYIBxgCKkD+sig/na=ture=="}
    ]
    assert [each["type"] for each in first] == ["thinking", "text", "tool_use"]
    assert second[:2] == [
        {"type": "thinking", "thinking": "And now about Rome.", "signature": "RXJRCkYIsecond=="},
        json.loads(bytes(REDACTED.raw)),
    ]
    assert [(each["id"], each["input"]) for each in (*first, *second) if each["type"] == "tool_use"] == [
        ("call_paris", {"city": "Paris"}),
        ("call_rome", {"city": "Rome"}),
    ]
    assert b"nx1." not in engine.requests[-1].raw and b"reasoning_details" not in engine.requests[-1].raw


@every_caller_api
@streamed_or_whole
async def test_encrypted_reasoning_returns_unchanged_to_a_responses_engine(
    caller: str, streamed: bool, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engine: ScriptedEngine
):
    engine.script = respond_with(*ENCRYPTED)
    assert await converse(caller, sdk, claude, MODELS[RESPONSES], streamed=streamed) == "Rome is warmer."
    items = engine.requests[-1].body["input"]
    reasoning = [item for item in items if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in reasoning] == ["gAAAAABencrypted==", "gAAAAABsilent=="]
    assert [[each["text"] for each in item["summary"]] for item in reasoning] == [["Weighing the options."], []]
    kinds = [item.get("type", "message") for item in items]
    assert kinds == [
        *("message", "reasoning", "message", "function_call", "function_call_output"),
        *("reasoning", "function_call", "function_call_output"),
    ]
    assert b"nx1." not in engine.requests[-1].raw


@every_caller_api
@streamed_or_whole
async def test_plain_reasoning_returns_to_a_chat_engine(
    caller: str, streamed: bool, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engine: ScriptedEngine
):
    """DeepSeek responds 400 to a conversation with tools whose reasoning is missing."""
    engine.script = respond_with(*PLAIN)
    assert await converse(caller, sdk, claude, MODELS[CHAT], streamed=streamed) == "Rome is warmer."
    assistant_messages = [message for message in engine.requests[-1].body["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in assistant_messages] == ["Paris first.", "Then Rome."]
    assert [message["tool_calls"][0]["id"] for message in assistant_messages] == ["call_paris", "call_rome"]
    assert b"nx1." not in engine.requests[-1].raw


async def test_opaque_reasoning_is_dropped_and_reported_when_the_engine_changes(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    """Signed reasoning is useless to another engine: the conversation continues without it."""
    engine.script = respond_with(SIGNED[0], DONE)
    messages: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    first = await sdk.chat.completions.create(model=MODELS[ANTHROPIC], messages=messages, tools=CHAT_TOOLS)
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": "call_paris", "content": "18 degrees"}]
    second = await sdk.chat.completions.with_raw_response.create(model=MODELS[RESPONSES], messages=messages, tools=CHAT_TOOLS)
    assert second.parse().choices[0].message.content == "Rome is warmer."
    assert "reasoning" in second.headers["x-narthex-dropped"]
    assert [item.get("type", "message") for item in engine.requests[-1].body["input"]] == [
        *("message", "message", "function_call", "function_call_output"),
    ]
    assert b"sig/na" not in engine.requests[-1].raw


def test_openai_sdk_sends_back_unknown_message_fields():
    """The premise of these tests: an SDK's object, put into a request, is sent with all fields that it was received with."""
    message = ChatCompletionMessage.model_validate({"role": "assistant", "content": "x", "reasoning_details": [{"a": 1}]})
    assert dump_for_next_request(message)["reasoning_details"] == [{"a": 1}]


LONG = replace(DONE, parts=(Text("word " * 4000),))


@every_caller_api
async def test_long_stream_in_many_pieces_arrives_whole(
    caller: str, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engine: ScriptedEngine
):
    target = {CHAT: ANTHROPIC, RESPONSES: CHAT, ANTHROPIC: RESPONSES}[caller]
    engine.script = respond_with(replace(LONG, pieces=200))
    assert (await converse(caller, sdk, claude, MODELS[target], streamed=True)) == "word " * 4000
