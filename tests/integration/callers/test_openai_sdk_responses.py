"""The Responses API and the chat helpers of the official OpenAI SDK, with engines of each API."""

import json
import uuid
from typing import Any

import httpx2
import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from providers.canonical.chat import Text
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, CUSTOM_CALL, HELLO, PARIS, RESPONSES, ROME, SITUATIONS, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS, break_midway, fail_with, respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
TOOLS: Any = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}]
TEXT = Situation(name="text", parts=(HELLO,))
CALLS = Situation(name="calls", parts=(HELLO, PARIS, ROME), finish="tool_calls")
IN_JSON = Situation(name="city", parts=(Text('{"city": "Paris"}'),))
every_engine_api = pytest.mark.parametrize("target", ALL)


class City(BaseModel):
    city: str


def situation_named(name: str) -> Situation:
    return next(each for each in SITUATIONS if each.name == name)


@every_engine_api
async def test_response_is_answered_with_text_usage_and_a_uuid7_id(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(TEXT)
    answer = await sdk.responses.create(model=MODELS[target], input="Hello!", instructions="Be brief.", temperature=0.5, store=False)
    assert (answer.output_text, answer.status, answer.model) == (HELLO.text, "completed", MODELS[target])
    if target != RESPONSES:  # such an engine echoes the request itself
        assert (answer.instructions, answer.temperature) == ("Be brief.", 0.5)
    assert answer.usage is not None and (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (20, 9, 29)
    assert uuid.UUID(answer.id.removeprefix("resp_")).version == 7


@every_engine_api
async def test_stream_helper_yields_text_as_it_arrives(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(TEXT)
    async with sdk.responses.stream(model=MODELS[target], input="Hello!") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Hello!", " Let m", "e see."]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == HELLO.text and final.usage is not None and final.usage.total_tokens == 29


@every_engine_api
async def test_function_calls_and_their_results_round_trip(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS, TEXT)
    async with sdk.responses.stream(model=MODELS[target], input=HI, tools=TOOLS) as stream:
        argument_deltas = [event.delta async for event in stream if event.type == "response.function_call_arguments.delta"]
        first = await stream.get_final_response()
    assert "".join(argument_deltas) == PARIS.arguments + ROME.arguments
    calls = [item for item in first.output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"} for call in calls]
    input: Any = [*HI, *first.output, *results]
    last = await sdk.responses.create(model=MODELS[target], input=input, tools=TOOLS)
    assert last.output_text == HELLO.text
    assert engine.requests[-1].raw.count(b"18 degrees") == 2


@every_engine_api
async def test_previous_response_id_continues_the_conversation(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS, TEXT)
    first = await sdk.responses.create(model=MODELS[target], input="Where is it warmer?", tools=TOOLS)
    results: Any = [{"type": "function_call_output", "call_id": id, "output": "18 degrees"} for id in ("call_paris", "call_rome")]
    last = await sdk.responses.create(model=MODELS[target], input=results, tools=TOOLS, previous_response_id=first.id)
    assert (last.output_text, last.previous_response_id) == (HELLO.text, first.id)
    assert b"Where is it warmer?" in engine.requests[-1].raw and engine.requests[-1].raw.count(b"18 degrees") == 2


@every_engine_api
async def test_parse_helper_returns_the_requested_class(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(IN_JSON, IN_JSON)
    answer = await sdk.responses.parse(model=MODELS[target], input="Where?", text_format=City)
    assert answer.output_parsed == City(city="Paris")
    async with sdk.responses.stream(model=MODELS[target], input="Where?", text_format=City) as stream:
        assert (await stream.get_final_response()).output_parsed == City(city="Paris")
    assert b'"city"' in engine.requests[-1].raw


async def test_custom_tool_is_called_through_chat(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = respond_with(situation_named("custom tool"))
    answer = await sdk.responses.create(model=MODELS[CHAT], input="How many?", tools=[{"type": "custom", "name": "run_sql"}])
    (call,) = answer.output
    assert (call.type, call.name, call.input) == ("custom_tool_call", CUSTOM_CALL.name, CUSTOM_CALL.arguments)  # type: ignore[union-attr]
    assert engine.requests[-1].body["tools"] == [{"type": "custom", "custom": {"name": "run_sql"}}]


@every_engine_api
async def test_response_cut_off_by_length_is_incomplete(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(situation_named("truncated by length"), situation_named("truncated by length"))
    answer = await sdk.responses.create(model=MODELS[target], input="Tell.", max_output_tokens=16)
    details = answer.incomplete_details
    assert answer.status == "incomplete" and details is not None and details.reason == "max_output_tokens"
    events = [event async for event in await sdk.responses.create(model=MODELS[target], input="Tell.", stream=True)]
    assert events[-1].type == "response.incomplete"


async def test_missing_engine_usage_is_estimated_and_marked(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = respond_with(Situation(name="uncounted", parts=(HELLO,), usage=None))
    usage = (await sdk.responses.create(model=MODELS[CHAT], input="Hello!")).usage
    assert usage is not None and usage.input_tokens > 0 and usage.output_tokens > 0 and getattr(usage, "estimated", False)


async def test_unsupported_tool_is_refused_by_its_path(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    with pytest.raises(openai.UnprocessableEntityError) as raised:
        await sdk.responses.create(model=MODELS[ANTHROPIC], input="Search.", tools=[{"type": "web_search"}])
    assert (raised.value.type, raised.value.param) == ("unsupported", "tools[0]")


async def test_invalid_request_names_the_field(sdk: openai.AsyncOpenAI):
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.responses.create(model=MODELS[CHAT], input="x", temperature="hot")  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert (raised.value.type, raised.value.param) == ("invalid_request_error", "temperature")


@every_engine_api
async def test_engine_refusal_keeps_its_message(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = fail_with(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "the prompt is odd"}})
    with pytest.raises(openai.BadRequestError) as raised:
        await sdk.responses.create(model=MODELS[target], input="Hello!")
    assert "the prompt is odd" in raised.value.message


@every_engine_api
async def test_truncated_engine_response_is_an_error_in_the_stream(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = break_midway(Situation(name="long", parts=(Text("word " * 50),), pieces=50))
    stream = await sdk.responses.create(model=MODELS[target], input="Hello!", stream=True)
    events: list[Any] = []
    try:
        async for event in stream:
            events.append(event)
    except openai.APIError as error:
        assert "midway" in error.message
    else:
        assert events[-1].type in ("error", "response.failed") and "midway" in events[-1].model_dump_json()
    assert not any(event.type == "response.completed" for event in events)


@pytest.mark.parametrize("target", [RESPONSES, ANTHROPIC])
async def test_chat_sdk_helpers_work_on_engines_of_other_apis(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, target: str):
    engine.script = respond_with(IN_JSON, IN_JSON, CALLS)
    answer = await sdk.chat.completions.parse(model=MODELS[target], messages=HI, response_format=City)
    assert answer.choices[0].message.parsed == City(city="Paris")
    async with sdk.chat.completions.stream(model=MODELS[target], messages=HI, response_format=City) as stream:
        assert (await stream.get_final_completion()).choices[0].message.parsed == City(city="Paris")
    tools: Any = [pydantic_function_tool(City, name="get_weather")]
    async with sdk.chat.completions.stream(model=MODELS[target], messages=HI, tools=tools) as stream:
        done = [event async for event in stream if event.type == "tool_calls.function.arguments.done"]
    assert [event.parsed_arguments for event in done] == [City(city="Paris"), City(city="Rome")]
    assert [event.index for event in done] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
async def test_host_that_refuses_to_encrypt_reasoning_is_sent_the_request_again_without_it(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, stream: bool
):
    serve = respond_with(TEXT)

    async def script(request: ReceivedRequest) -> None:
        if b"reasoning.encrypted_content" in request.raw:
            message = "Encrypted content is not supported with this model."
            await request.respond(400, json.dumps({"error": {"message": message, "param": "include"}}).encode())
        else:
            await serve(request)

    engine.script = script
    answer = await client.post("/v1/responses", json={"model": "responses", "input": "Hi", "stream": stream})
    assert answer.status_code == 200 and HELLO.text in answer.text
    first, second = (request.body for request in engine.requests if request.path == "/v1/responses")
    assert first.pop("include") == ["reasoning.encrypted_content"] and first == second
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["outcome"], row["attempts"]) == ("answered", None)  # None: the one attempt served
