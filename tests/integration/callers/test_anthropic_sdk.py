"""The official anthropic SDK against the gateway, whichever API the engine speaks."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from providers.canonical.chat import Text
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, HELLO, PARIS, RESPONSES, ROME, SITUATIONS, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS, break_midway, fail_with, respond_with
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
TOOLS: Any = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
GREETING = Situation(name="greeting", parts=(HELLO,))
CALLS = Situation(name="calls", parts=(HELLO, PARIS, ROME), finish="tool_calls")
every_engine_api = pytest.mark.parametrize("target", ALL)


class City(BaseModel):
    city: str


@pytest.fixture
async def sdk(service: Service) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    """The key is sent as x-api-key, as this SDK does by default."""
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as client:
        yield client


@every_engine_api
async def test_message_is_answered_with_text_usage_and_a_uuid7_id(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    answer = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=HI, system="Be brief.")
    assert [(block.type, getattr(block, "text", None)) for block in answer.content] == [("text", HELLO.text)]
    assert (answer.role, answer.stop_reason, answer.model) == ("assistant", "end_turn", MODELS[target])
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (20, 9)
    assert uuid.UUID(answer.id.removeprefix("msg_")).version == 7
    assert engine.requests[-1].body["model"] == "engine-model"


@every_engine_api
async def test_stream_helper_yields_text_as_it_arrives(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    async with sdk.messages.stream(model=MODELS[target], max_tokens=100, messages=HI) as stream:
        pieces = [piece async for piece in stream.text_stream]
        final = await stream.get_final_message()
    assert "".join(pieces) == HELLO.text and len(pieces) == 3
    assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == ("end_turn", 20, 9)


@every_engine_api
async def test_stream_events_arrive_in_the_documented_order(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS)
    stream = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=HI, tools=TOOLS, stream=True)
    kinds = [event.type async for event in stream if event.type not in ("ping", "content_block_delta")]
    blocks = ["content_block_start", "content_block_stop"] * 3
    assert kinds == ["message_start", *blocks, "message_delta", "message_stop"]


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
async def test_stream_begins_with_an_estimate_of_the_input(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    """Coding agents read there how full their context is; these engines count only at the end."""
    engine.script = respond_with(GREETING)
    async with sdk.messages.stream(
        model=MODELS[target], max_tokens=100, messages=[{"role": "user", "content": "Hello! " * 3_000}]
    ) as stream:
        events = [event async for event in stream]
    (start,) = (event for event in events if event.type == "message_start")
    (end,) = (event for event in events if event.type == "message_delta")
    assert 3_000 < start.message.usage.input_tokens < 10_000 and (end.usage.input_tokens, end.usage.output_tokens) == (20, 9)


@every_engine_api
async def test_tool_calls_and_their_results_round_trip(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS, GREETING)
    first = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=HI, tools=TOOLS)
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.id, call.name, call.input) for call in calls] == [
        ("call_paris", "get_weather", {"city": "Paris"}),
        ("call_rome", "get_weather", {"city": "Rome"}),
    ]
    assert first.stop_reason == "tool_use"
    results: Any = [{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"} for call in calls]
    messages: Any = [*HI, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    last = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=messages, tools=TOOLS)
    assert last.stop_reason == "end_turn"
    assert engine.requests[-1].raw.count(b"18 degrees") == 2


@every_engine_api
async def test_parse_helper_returns_the_requested_class(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = respond_with(Situation(name="city", parts=(Text('{"city": "Paris"}'),)))
    answer = await sdk.messages.parse(model=MODELS[target], max_tokens=100, messages=HI, output_format=City)
    assert answer.parsed_output == City(city="Paris")
    assert b'"city"' in engine.requests[-1].raw


async def test_stop_sequence_is_reported(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine):
    engine.script = respond_with(next(each for each in SITUATIONS if each.name == "stop sequence"))
    answer = await sdk.messages.create(model=MODELS[ANTHROPIC], max_tokens=100, messages=HI, stop_sequences=["three"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "three")


async def test_missing_engine_usage_is_estimated_and_marked(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine):
    engine.script = respond_with(Situation(name="uncounted", parts=(HELLO,), usage=None))
    answer = await sdk.messages.create(model=MODELS[CHAT], max_tokens=100, messages=HI)
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0 and getattr(answer.usage, "estimated", False)


async def test_tokens_are_counted_by_an_engine_that_supports_it(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine):
    engine.script = respond_with()
    assert (await sdk.messages.count_tokens(model=MODELS[ANTHROPIC], messages=HI)).input_tokens == 42


async def test_tokens_are_estimated_for_an_engine_that_cannot_count(sdk: anthropic.AsyncAnthropic):
    response = await sdk.messages.with_raw_response.count_tokens(model=MODELS[RESPONSES], messages=HI)
    assert (await response.parse()).input_tokens > 0 and response.headers["x-narthex-emulated"] == "input_tokens"


async def test_bearer_token_is_accepted_as_a_key(service: Service, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    async with anthropic.AsyncAnthropic(base_url=service.url, auth_token=service.key, max_retries=0) as client:
        assert (await client.messages.create(model=MODELS[CHAT], max_tokens=10, messages=HI)).content


async def test_unknown_key_is_an_authentication_error(service: Service):
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key="sk-nobody", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError) as raised:
            await client.messages.create(model=MODELS[CHAT], max_tokens=10, messages=HI)
    assert raised.value.type == "authentication_error"


async def test_unknown_model_is_not_found(sdk: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.NotFoundError) as raised:
        await sdk.messages.create(model="nothing", max_tokens=10, messages=HI)
    assert raised.value.type == "not_found_error" and "nothing" in raised.value.message


async def test_invalid_request_names_the_field_in_the_anthropic_envelope(sdk: anthropic.AsyncAnthropic):
    with pytest.raises(anthropic.BadRequestError) as raised:
        await sdk.messages.create(model=MODELS[CHAT], max_tokens=10, messages=[{"role": "robot", "content": "x"}])  # pyright: ignore[reportArgumentType]
    body: Any = raised.value.body
    assert raised.value.type == "invalid_request_error"
    assert body["type"] == "error" and "messages" in body["error"]["message"] and raised.value.request_id


async def test_unsupported_field_is_refused_by_name_or_dropped_with_permission(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    with pytest.raises(anthropic.UnprocessableEntityError) as raised:
        await sdk.messages.create(model=MODELS[RESPONSES], max_tokens=10, messages=HI, extra_body={"top_k": 5})
    assert "`top_k`" in raised.value.message and [each for each in engine.requests if each.body] == []
    answer = await sdk.messages.with_raw_response.create(
        model=MODELS[RESPONSES], max_tokens=10, messages=HI, extra_body={"top_k": 5}, extra_headers={"x-narthex-drop": "top_k"}
    )
    assert answer.headers["x-narthex-dropped"] == "top_k"


ERRORS = {
    CHAT: {"error": {"message": "the prompt is odd", "type": "invalid_request_error", "code": None, "param": None}},
    RESPONSES: {"error": {"message": "the prompt is odd", "type": "invalid_request_error", "code": None, "param": None}},
    ANTHROPIC: {"type": "error", "error": {"type": "invalid_request_error", "message": "the prompt is odd"}},
}


@every_engine_api
async def test_engine_refusal_is_sent_in_the_anthropic_envelope(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = fail_with(400, ERRORS[target])
    with pytest.raises(anthropic.BadRequestError) as raised:
        await sdk.messages.create(model=MODELS[target], max_tokens=10, messages=HI)
    assert raised.value.type == "invalid_request_error" and "the prompt is odd" in raised.value.message


@every_engine_api
async def test_overloaded_engine_is_typed_as_overloaded_with_its_status_and_retry_after(
    sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str
):
    engine.script = fail_with(429, ERRORS[target], "retry-after: 7")
    with pytest.raises(anthropic.RateLimitError) as raised:
        await sdk.messages.create(model=MODELS[target], max_tokens=10, messages=HI)
    assert raised.value.type == "rate_limit_error" and raised.value.response.headers["retry-after"] == "7"


@every_engine_api
async def test_truncated_engine_response_is_an_error_in_the_stream(sdk: anthropic.AsyncAnthropic, engine: ScriptedEngine, target: str):
    engine.script = break_midway(Situation(name="long", parts=(Text("word " * 50),), pieces=50))
    with pytest.raises(anthropic.APIError) as raised:
        async with sdk.messages.stream(model=MODELS[target], max_tokens=10, messages=HI) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            raise AssertionError(f"the truncated response looked complete: {text}")
    assert "midway" in str(raised.value.body)
