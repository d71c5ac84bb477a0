"""Chat completions through the official SDK, streamed or not, with the sandbox and with a scripted engine."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["location", "unit"],
            "additionalProperties": False,
        },
    },
}


async def test_async_sdk_gets_a_chat_completion_from_the_sandbox(sdk: openai.AsyncOpenAI):
    answer = await sdk.chat.completions.create(model="sandbox", messages=HI, max_tokens=50)
    assert answer.choices[0].message.content
    assert answer.model == "sandbox"
    assert uuid7.is_uuid7(answer.id)
    assert answer.usage is not None and answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.system_fingerprint is not None, answer.service_tier is not None, answer.object) == (True, True, "chat.completion")
    assert uuid7.is_uuid7(getattr(answer, "episode_id"))  # noqa: B009


def test_sync_sdk_gets_whole_and_streamed_chat_completions(service: Service):
    with openai.OpenAI(base_url=service.url + "/v1", api_key=service.key) as sdk:
        assert sdk.chat.completions.create(model="sandbox", messages=HI).choices[0].message.content
        frames = list(sdk.chat.completions.create(model="sandbox", messages=HI, stream=True))
        assert frames[-1].choices[0].finish_reason == "stop"


async def test_seeded_answer_is_the_same_whole_and_streamed(sdk: openai.AsyncOpenAI):
    unstreamed = await sdk.chat.completions.create(model="sandbox", messages=HI, seed=7, temperature=0)
    streamed_text = ""
    async for frame in await sdk.chat.completions.create(model="sandbox", messages=HI, seed=7, temperature=0, stream=True):
        streamed_text += frame.choices[0].delta.content or ""
    assert streamed_text == unstreamed.choices[0].message.content


async def test_stream_usage_is_sent_once_on_the_finishing_chunk(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    frames = await _frames(sdk, stream_options={"include_usage": True})
    with_usage = [frame for frame in frames if frame.usage is not None]
    assert (
        len(with_usage) == 1
        and with_usage[0].choices[0].finish_reason == "stop"
        and with_usage[0].usage
        and with_usage[0].usage.total_tokens == 5
    )
    assert all(frame.choices for frame in frames)


async def test_stream_usage_is_hidden_from_callers_who_did_not_request_it(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    assert all(frame.usage is None for frame in await _frames(sdk))
    assert engine.requests[0].body["stream_options"] == {"include_usage": True}


async def test_usage_is_estimated_and_marked_where_the_engine_reports_none(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO[:-1])
    usages = [frame.usage for frame in await _frames(sdk, stream_options={"include_usage": True}) if frame.usage is not None]
    assert len(usages) == 1 and usages[0].completion_tokens > 0 and getattr(usages[0], "estimated", False)
    assert all(frame.usage is None for frame in await _frames(sdk))


async def test_every_chunk_carries_the_same_ids_and_the_requested_model_name(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    frames = await _frames(sdk)
    assert len({frame.id for frame in frames}) == 1 and uuid7.is_uuid7(frames[0].id)
    assert {frame.model for frame in frames} == {"scripted"}
    assert len({getattr(frame, "episode_id") for frame in frames}) == 1  # noqa: B009


async def test_done_is_sent_although_the_engine_omits_it(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO, done=False)
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n") and answer.text.count("[DONE]") == 1


async def test_each_chunk_is_relayed_as_it_arrives(client: httpx2.AsyncClient, engine: ScriptedEngine):
    received = asyncio.Event()

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"content": "first"}))
        await received.wait()
        request.send_event(chunk({"content": "second"}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = script
    async with client.stream("POST", "/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": True}) as answer:
        async for line in answer.aiter_lines():
            if "first" in line:
                received.set()
        assert received.is_set()


async def test_undocumented_fields_are_passed_through_in_both_directions(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps({**completion("Hi", annotations=[1]), "prompt_logprobs": {"a": 0.5}}).encode())

    engine.script = script
    body = (await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "unheard_of": {"x": [1]}})).json()
    assert body["prompt_logprobs"] == {"a": 0.5} and body["choices"][0]["message"]["annotations"] == [1]
    assert engine.requests[0].body["unheard_of"] == {"x": [1]}


async def test_engine_request_differs_only_in_the_model_name_and_gateway_fields(client: httpx2.AsyncClient, engine: ScriptedEngine):
    episode = uuid7.mint()
    request = {
        "model": "scripted",
        "messages": HI,
        "temperature": 0.25,
        "logit_bias": {"5": -1.5},
        "stop": ["a", "b"],
        "n": 2,
        "tools": [TOOL],
    }
    answer = await client.post("/v1/chat/completions", json={**request, "episode_id": episode})
    assert engine.requests[0].body == {**request, "model": "engine-model"}
    assert answer.json()["episode_id"] == episode == answer.headers["x-narthex-episode-id"]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_returned_as_reasoning_content_for_every_engine_name(
    sdk: openai.AsyncOpenAI, engine: ScriptedEngine, field: str
):
    async def respond_with_reasoning(request: ReceivedRequest) -> None:
        await request.respond_completion("42", **{field: "Hm."})

    engine.script = respond_with_reasoning
    message = (await sdk.chat.completions.create(model="scripted", messages=HI)).choices[0].message
    assert getattr(message, "reasoning_content", None) == "Hm."
    engine.script = stream_script(chunk({field: "Hm."}), chunk({"content": "42"}), chunk({}, "stop"))
    frames = await _frames(sdk)
    assert "".join(getattr(frame.choices[0].delta, "reasoning_content", None) or "" for frame in frames) == "Hm."


async def test_streaming_only_engine_serves_whole_responses(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": part}} for part in ('{"location"', ': "Rome"}')]
    deltas = [chunk({"role": "assistant", "content": "Let me "}), chunk({"content": "see."}), chunk({"tool_calls": [call]})]
    engine.script = stream_script(*deltas, *(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "tool_calls"), HELLO[-1])
    answer = await sdk.chat.completions.create(model="only-streams", messages=HI, tools=[TOOL])
    assert engine.requests[0].body["stream"] is True
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Let me see.", "tool_calls")
    assert choice.message.tool_calls and json.loads(choice.message.tool_calls[0].function.arguments) == {"location": "Rome"}  # type: ignore[union-attr]
    assert answer.usage and answer.usage.completion_tokens == 2


async def test_engine_that_never_streams_serves_streams(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def respond_with_call(request: ReceivedRequest) -> None:
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        await request.respond_completion("Hello.", tool_calls=[call], reasoning="Hm.")

    engine.script = respond_with_call
    frames = await _frames(sdk, model="never-streams", stream_options={"include_usage": True})
    assert "stream" not in engine.requests[0].body
    assert "".join(frame.choices[0].delta.content or "" for frame in frames) == "Hello."
    calls = [call for frame in frames for call in frame.choices[0].delta.tool_calls or []]
    assert calls[0].function and calls[0].function.name == "get_weather" and frames[-1].usage and frames[-1].usage.total_tokens == 5


async def test_sdk_stream_helper_works(sdk: openai.AsyncOpenAI):
    async with sdk.chat.completions.stream(model="sandbox", messages=HI) as stream:
        deltas = [event.delta async for event in stream if event.type == "content.delta"]
        final = await stream.get_final_completion()
    assert deltas and final.choices[0].message.content == "".join(deltas)


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_call_arguments_match_the_tool_schema(sdk: openai.AsyncOpenAI, stream: bool):
    choice: Any = {"type": "function", "function": {"name": "get_weather"}}
    if stream:
        async with sdk.chat.completions.stream(model="sandbox", messages=HI, tools=[TOOL], tool_choice=choice) as streamed:
            answer = await streamed.get_final_completion()
    else:
        answer = await sdk.chat.completions.create(model="sandbox", messages=HI, tools=[TOOL], tool_choice=choice)
    calls: Any = answer.choices[0].message.tool_calls
    arguments = json.loads(calls[0].function.arguments)
    assert calls[0].function.name == "get_weather" and calls[0].id
    assert isinstance(arguments["location"], str) and arguments["unit"] in ("celsius", "fahrenheit")


def _is_object_with_n(text: str) -> bool:
    return "n" in json.loads(text)


def _is_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


def _one_of(*options: str) -> Callable[[str], bool]:
    return lambda text: text in options


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


GUIDED: list[tuple[dict[str, Any], Callable[[str], bool]]] = [
    ({"guided_choice": ["yes", "no"]}, _one_of("yes", "no")),
    ({"guided_regex": "[a-f]{3}-[0-9]{2}"}, _matches("[a-f]{3}-[0-9]{2}")),
    ({"guided_json": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}, _is_object_with_n),
    ({"guided_grammar": 'start: "a" | "b" "c"'}, _one_of("a", "bc")),
    ({"response_format": {"type": "json_object"}}, _is_object),
    ({"structured_outputs": {"choice": ["up", "down"]}}, _one_of("up", "down")),
]


@pytest.mark.parametrize(("fields", "is_valid"), GUIDED, ids=[next(iter(fields)) for fields, _ in GUIDED])
async def test_sandbox_obeys_every_kind_of_guided_decoding(
    sdk: openai.AsyncOpenAI, fields: dict[str, Any], is_valid: Callable[[str], bool]
):
    answer = await sdk.chat.completions.create(model="sandbox", messages=HI, extra_body=fields)
    assert is_valid(answer.choices[0].message.content or "")


async def test_constraint_fields_are_translated_for_the_serving_engine_version(client: httpx2.AsyncClient, engine: ScriptedEngine):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await client.post("/v1/chat/completions", json={"model": "vllm", "messages": HI, "guided_json": schema, "tools": []})
    await client.post("/v1/chat/completions", json={"model": "old-vllm", "messages": HI, "guided_json": schema})
    await client.post("/v1/chat/completions", json={"model": "old-vllm", "messages": HI, "structured_outputs": {"regex": "a+"}})
    await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "guided_json": schema})
    sent = [
        {key: value for key, value in request.body.items() if key not in ("model", "messages", "cache_salt")}
        for request in engine.requests
        if request.body
    ]
    strict = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    assert sent == [{"structured_outputs": {"json": schema}}, {"guided_json": schema}, {"guided_regex": "a+"}, {"response_format": strict}]


async def test_images_and_files_reach_the_engine_unchanged(client: httpx2.AsyncClient, engine: ScriptedEngine):
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "document.pdf"}},
    ]
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": [{"role": "user", "content": parts}]})
    assert answer.status_code == 200 and engine.requests[0].body["messages"][0]["content"] == parts


async def test_every_response_carries_the_request_id_headers_of_the_sdks(client: httpx2.AsyncClient, engine: ScriptedEngine):
    good = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI})
    bad = await client.post("/v1/chat/completions", json={"model": "scripted"})
    for answer in (good, bad):
        assert answer.headers["x-request-id"] == answer.headers["request-id"] == answer.headers["x-narthex-inference-id"]
    assert good.headers["x-narthex-served"] == "first/engine-model" and good.json()["id"] == good.headers["x-request-id"]


async def test_lone_surrogate_from_an_engine_does_not_end_the_stream(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    broken = json.dumps(chunk({"content": "X"})).encode().replace(b'"X"', rb'"a\ud83d"')
    engine.script = stream_script(broken, chunk({"content": "b"}, "stop"))
    assert "".join(frame.choices[0].delta.content or "" for frame in await _frames(sdk)) == "a\ufffdb"


async def test_models_are_listed_and_retrieved(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    names = {model.id async for model in sdk.models.list()}
    assert {"sandbox", "scripted", "pair"} <= names
    assert (await sdk.models.retrieve("sandbox")).id == "sandbox"
    with pytest.raises(openai.NotFoundError, match="no model 'nope'"):
        await sdk.models.retrieve("nope")


async def test_tensorzero_model_name_prefix_is_accepted(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    answer = await sdk.chat.completions.create(model="tensorzero::model_name::scripted", messages=HI)
    assert answer.model == "tensorzero::model_name::scripted"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/tokenize"])
async def test_fields_for_a_gateway_reach_no_host_and_their_values_no_record(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, path: str
):
    secret = "sk-a-credential-of-the-callers"
    reserved = {"tensorzero::credentials": {"key": secret}, "narthex::later": secret, "tensorzero::tags": {"a": "b"}}
    content = {"messages": HI} if path.startswith("/v1/chat") else {"input": "Hello!"} if path == "/v1/embeddings" else {"prompt": "Hello!"}
    answer = await client.post(path, json={"model": "vllm", **content, **reserved})
    sent = [request.body for request in engine.requests if request.path == path]
    assert sent and not any(key.startswith(("tensorzero::", "narthex::")) for body in sent for key in body)
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert secret not in json.dumps(row)
    assert json.loads(row["content"]["request"])["tensorzero::credentials"] == "[withheld]"
    if path.startswith("/v1/chat"):
        assert (answer.status_code, answer.headers["x-narthex-dropped"]) == (200, "tensorzero::credentials, narthex::later")


@pytest.mark.parametrize("model", ["vllm", "scripted", "responses"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://169.254.169.254/latest/meta-data", "http://127.0.0.1:9000/a.png"])
async def test_media_of_the_engines_own_network_never_reaches_it(
    client: httpx2.AsyncClient, engine: ScriptedEngine, model: str, path: str, url: str
):
    content: Any = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
        "/v1/responses": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
        "/v1/messages": {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}],
        },
    }[path]
    answer = await client.post(path, json={"model": model, **content})
    assert answer.status_code == 400 and ("data: URL" in answer.text or "no public address" in answer.text)
    assert [request for request in engine.requests if url in request.raw.decode()] == []


async def _frames(sdk: openai.AsyncOpenAI, model: str = "scripted", **options: Any) -> list[ChatCompletionChunk]:
    stream = await sdk.chat.completions.create(model=model, messages=HI, stream=True, **options)
    return [frame async for frame in stream]


RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {"answers": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}}},
    "required": ["answers"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("forced", ["by name", "any"])
async def test_sandbox_calls_the_forced_tool_in_every_api(sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, forced: str):
    """The schema of the tool is one as Claude Code sends it."""
    by_name = forced == "by name"
    function: Any = {"name": "ask_user", "parameters": RECORD}
    chat_choice: Any = {"type": "function", "function": {"name": "ask_user"}} if by_name else "required"
    chat = await sdk.chat.completions.create(
        model="sandbox", messages=HI, tools=[{"type": "function", "function": function}], tool_choice=chat_choice
    )
    responses_choice: Any = {"type": "function", "name": "ask_user"} if by_name else "required"
    responses_tools: Any = [{"type": "function", **function}]
    responses = await sdk.responses.create(model="sandbox", input="Hello!", tools=responses_tools, tool_choice=responses_choice)
    messages_choice: Any = {"type": "tool", "name": "ask_user"} if by_name else {"type": "any"}
    tools: Any = [{"name": "ask_user", "input_schema": RECORD}]
    message = await claude.messages.create(model="sandbox", max_tokens=1_000, messages=HI, tools=tools, tool_choice=messages_choice)
    chat_calls: Any = chat.choices[0].message.tool_calls
    (call,) = [item for item in responses.output if item.type == "function_call"]
    (block,) = [block for block in message.content if block.type == "tool_use"]
    assert [chat_calls[0].function.name, call.name, block.name] == ["ask_user"] * 3
    for arguments in (json.loads(chat_calls[0].function.arguments), json.loads(call.arguments), block.input):
        jsonschema.validate(arguments, RECORD)
    assert message.stop_reason == "tool_use"
