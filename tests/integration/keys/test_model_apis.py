"""The API that a model wants: tools of Chat callers at OpenAI's current models, and bodies of one API at the route of the other."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import openai
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

# A subdomain of OpenAI's own, which the gateway processes of tests resolve to loopback: tests/support/guards.py.
OPENAI_HOST = "scripted-engine.api.openai.com"
MODELS = {f"{host}-{name}": (host, name) for host in ("gptopenai", "gptazure") for name in ("gpt-5.6-sol", "gpt-6-astra")}
LONG_NAME = "mcp__weather_server__" + "get_" * 15 + "weather"
HI: dict[str, Any] = {"role": "user", "content": "Weather in Oslo?"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("get_weather", LONG_NAME)]
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA-made-by-the-host"}


@pytest.fixture(scope="module")
async def gpt(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    port = engines[0].port
    models = "\n".join(
        f'"{name}" = {{ targets = [{{ provider = "{provider}", model = "{model}" }}] }}' for name, (provider, model) in MODELS.items()
    )
    service.apply(f"""
        [providers]
        gptopenai = {{ adapter = "openai", base_url = "http://{OPENAI_HOST}:{port}/v1" }}
        gptazure = {{ adapter = "azure", base_url = "http://127.0.0.1:{port}" }}
        gptelsewhere = {{ adapter = "openai", base_url = "http://127.0.0.1:{port}/v1" }}
        [models]
        {models}
        gptelsewhere = {{ targets = [{{ provider = "gptelsewhere", model = "gpt-5.6-sol" }}] }}
    """)


def _response(output: Sequence[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    fields = {"id": "resp_1", "object": "response", "created_at": 1790000000, "status": status, "model": "gpt"}
    return {**fields, "output": list(output), "usage": usage if status == "completed" else None}


async def answer_as_openai(request: ReceivedRequest) -> None:
    """OpenAI in 2026-11: Chat refuses function tools of a model that reasons; Responses calls the last tool, then answers."""
    body = request.body
    if not request.path.endswith("/responses"):
        if any(tool["type"] == "function" for tool in body.get("tools", ())) and body.get("reasoning_effort") != "none":
            message = "Function tools with reasoning_effort are not supported in /v1/chat/completions."
            error = {"message": message, "type": "invalid_request_error", "param": "reasoning_effort", "code": None}
            await request.respond(400, json.dumps({"error": error}).encode())
        else:
            await request.respond_completion("From Chat.")
        return
    has_result = any(item.get("type") == "function_call_output" for item in body["input"])
    item: dict[str, Any]
    if has_result:
        part: dict[str, Any] = {"type": "output_text", "text": "Rain.", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    else:
        call = {"call_id": "call_1", "name": body["tools"][-1]["name"], "arguments": '{"city":"Oslo"}', "status": "completed"}
        item = {"type": "function_call", "id": "fc_1", **call}
    output = [REASONING, item]
    if not body["stream"]:
        await request.respond(200, json.dumps(_response(output)).encode())
        return
    events: list[dict[str, Any]] = [{"type": "response.created", "response": _response([], "in_progress")}]
    for at, each in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": at, "item": {**each, "arguments": "", "content": []}})
        if each["type"] == "function_call":
            place = {"output_index": at, "item_id": "fc_1"}
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": each["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **place, "arguments": each["arguments"]})
        if each["type"] == "message":
            place = {"output_index": at, "item_id": "msg_1", "content_index": 0}
            events.append({"type": "response.content_part.added", **place, "part": {**each["content"][0], "text": ""}})
            events.append({"type": "response.output_text.delta", **place, "delta": "Rain."})
            events.append({"type": "response.output_text.done", **place, "text": "Rain."})
            events.append({"type": "response.content_part.done", **place, "part": each["content"][0]})
        events.append({"type": "response.output_item.done", "output_index": at, "item": each})
    events.append({"type": "response.completed", "response": _response(output)})
    request.begin_stream()
    for number, event in enumerate(events):
        data = json.dumps({**event, "sequence_number": number})
        request.send_chunk(f"event: {event['type']}\ndata: {data}\n\n".encode())
    request.end_stream()


async def _complete(sdk: Any, messages: list[Any], stream: bool, **fields: Any) -> dict[str, Any]:
    """The message of the answer, as a client appends it to its history."""
    if not stream:
        completion = await sdk.chat.completions.create(messages=messages, **fields)
        return completion.choices[0].message.model_dump(exclude_none=True)
    async with sdk.chat.completions.stream(messages=messages, **fields) as events:
        completion = await events.get_final_completion()
    return completion.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", MODELS)
async def test_two_rounds_of_tools_through_chat_at_current_models(
    gpt: None, sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str, stream: bool
):
    engine.script = answer_as_openai
    messages: list[Any] = [HI]
    message = await _complete(sdk, messages, stream, model=model, tools=TOOLS)
    (call,) = message["tool_calls"]
    # The host takes names of 64 characters, and the caller gets its own back.
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (LONG_NAME, {"city": "Oslo"})
    messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "rain"}]
    answer = await _complete(sdk, messages, stream, model=model, tools=TOOLS)
    assert answer["content"] == "Rain."
    first, second = engine.requests
    assert first.path.endswith("/responses") and second.path.endswith("/responses")
    for sent in (first.body, second.body):
        assert (sent["store"], sent["include"], sent["stream"]) == (False, ["reasoning.encrypted_content"], stream)
        assert all(len(tool["name"]) <= 64 for tool in sent["tools"])
    kinds = [item["type"] for item in second.body["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert second.body["input"][1]["encrypted_content"] == REASONING["encrypted_content"]
    assert second.body["input"][2]["name"] == first.body["tools"][1]["name"]


async def test_the_other_api_is_reported_in_the_header_and_the_record(
    gpt: None, service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    engine.script = answer_as_openai
    request = {"model": "gptazure-gpt-5.6-sol", "messages": [HI], "tools": TOOLS[:1]}
    answer = await client.post("/v1/chat/completions", json=request)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-narthex-emulated"] == "tools (openai_responses)"
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert record["emulated"] == ["tools (openai_responses)"]
    stays = await client.post("/v1/chat/completions", json={**request, "reasoning_effort": "none"})
    assert stays.json()["choices"][0]["message"]["content"] == "From Chat." and "x-narthex-emulated" not in stays.headers
    elsewhere = await client.post("/v1/chat/completions", json={**request, "model": "gptelsewhere"})
    assert elsewhere.status_code == 400 and engine.requests[-1].path.endswith("/chat/completions")


RESPONSES_TOOLS = [
    {"type": "function", "name": "get_weather", "parameters": PARAMETERS},
    {"type": "custom", "name": "ApplyPatch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}},
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_responses_body_at_chat_is_served_and_answered_as_chat(
    gpt: None, service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool
):
    """Cursor's agent mode sends such a body."""
    body = {
        "model": "scripted",
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "tools": RESPONSES_TOOLS,
        "reasoning": {"effort": "high", "summary": "auto"},
        "stream": stream,
        "metadata": {"tenant": "t"},
    }
    if stream:

        async def answer_in_chunks(request: ReceivedRequest) -> None:
            request.begin_stream()
            request.send_event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}]})
            request.send_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            request.send_event(b"[DONE]")
            request.end_stream()

        engine.script = answer_in_chunks
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    if stream:
        assert '"object":"chat.completion.chunk"' in answer.text and answer.text.endswith("data: [DONE]\n\n")
    else:
        assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    sent = next(request for request in engine.requests if request.path.endswith("/chat/completions")).body
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (sent["tools"][0]["function"]["name"], sent["tools"][1]["custom"]["name"]) == ("get_weather", "ApplyPatch")
    assert sent["reasoning_effort"] == "high"
    assert answer.headers["x-narthex-emulated"] == "input (openai_responses)"
    assert answer.headers["x-narthex-dropped"] == "reasoning.summary"
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["emulated"], record["tags"]) == (["input (openai_responses)"], {"tenant": "t"})


async def test_a_chat_body_at_responses_is_served_and_answered_as_responses(gpt: None, client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post("/v1/responses", json={"model": "scripted", "messages": [HI], "tools": TOOLS[:1], "max_tokens": 9})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["object"], answer.json()["output"][0]["content"][0]["text"]) == ("response", "Hello.")
    assert answer.headers["x-narthex-emulated"] == "messages (openai_chat)"


@pytest.mark.parametrize(("route", "field"), [("/v1/responses", "messages"), ("/v1/chat/completions", "input")])
async def test_a_body_of_the_other_api_is_held_to_the_same_caps(
    gpt: None, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, field: str
):
    received = len(engine.requests)
    answer = await client.post(route, json={"model": "scripted", field: [HI] * 10_001})
    assert answer.status_code == 400, answer.text[:200]
    assert "10001" in answer.json()["error"]["message"] and "NARTHEX_MAX_MESSAGES" in answer.json()["error"]["message"]
    assert len(engine.requests) == received


async def test_flat_tools_among_those_of_chat_are_read(gpt: None, client: httpx2.AsyncClient, engine: ScriptedEngine):
    """Cursor's ask mode sends such tools."""
    body = {"model": "scripted", "messages": [HI], "tools": [TOOLS[0], RESPONSES_TOOLS[1]]}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    sent = next(request for request in engine.requests if request.path.endswith("/chat/completions")).body["tools"]
    format = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x/"}}
    assert sent == [TOOLS[0], {"type": "custom", "custom": {"name": "ApplyPatch", "format": format}}]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"model": "scripted"}, "messages"),
        ("/v1/chat/completions", {"model": "scripted", "input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ("/v1/chat/completions", {"model": "scripted", "input": "Hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        ("/v1/responses", {"model": "scripted"}, "input"),
        ("/v1/responses", {"model": "scripted", "messages": [{"role": "nobody", "content": "x"}]}, None),
        ("/v1/responses", {"model": "scripted", "messages": [HI], "stop": ["x"]}, "stop"),
    ],
)
async def test_what_is_wrong_is_named_as_the_caller_wrote_it(
    gpt: None, client: httpx2.AsyncClient, engine: ScriptedEngine, path: str, body: dict[str, Any], param: str | None
):
    refused = await client.post(path, json=body)
    assert refused.status_code in (400, 422) and (param is None or refused.json()["error"]["param"] == param), refused.text
