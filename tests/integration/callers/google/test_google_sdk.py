"""The official google-genai SDK against the gateway, whichever API the engine speaks."""

import base64
import json
import uuid
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from providers.canonical.chat import OpaqueState, Reasoning, Text
from tests.conformance.situations import ANTHROPIC, CHAT, GEMINI, HELLO, PARIS, RESPONSES, Situation
from tests.support.google_callers import CALLS, DECLARATION, GREETING, NAMES, PNG, TOOLS, every_engine_api, google_sdk
from tests.support.processes.service import Service
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

__all__ = ["google_sdk"]


class City(BaseModel):
    city: str


@every_engine_api
async def test_content_is_generated_with_usage_finish_and_ids(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    answer = await sdk.models.generate_content(
        model=NAMES[target], contents="Hello!", config={"system_instruction": "Be brief.", "max_output_tokens": 50}
    )
    assert answer.text == HELLO.text
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP and answer.model_version == NAMES[target]
    usage = answer.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (20, 9, 29)
    assert uuid.UUID(answer.response_id).version == 7
    assert b"Be brief." in engine.requests[-1].raw


@every_engine_api
async def test_stream_yields_text_as_it_arrives(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    stream = await sdk.models.generate_content_stream(model=NAMES[target], contents="Hello!")
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.text or "" for chunk in chunks) == HELLO.text and len(chunks) == 4
    assert [chunk.candidates[0].finish_reason for chunk in chunks][-1] == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.total_token_count == 29 and len({chunk.response_id for chunk in chunks}) == 1


@every_engine_api
async def test_stream_as_one_array_holds_the_same(sdk: Any, service: Service, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS, CALLS)
    body = {"contents": [{"parts": [{"text": "Hello!"}]}], "tools": [{"functionDeclarations": [DECLARATION]}]}
    async with service.client() as client:
        path = f"/v1beta/models/{NAMES[target]}:streamGenerateContent"
        array = await client.post(path, json=body)
        events = await client.post(f"{path}?alt=sse", json=body)
    assert array.headers["content-type"].startswith("application/json") and events.headers["content-type"].startswith("text/event-stream")
    frames = [json.loads(frame.removeprefix("data: ")) for frame in events.text.split("\n\n") if frame]
    assert parts_of(array.json()) == parts_of(frames) and len(array.json()) == len(frames) > 3


def parts_of(chunks: list[Any]) -> list[Any]:
    """The parts of a stream, whose ids of calls are new each time where the engine gives none."""
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    return [{**part, "functionCall": {**part["functionCall"], "id": "any"}} if "functionCall" in part else part for part in parts]


@every_engine_api
@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_and_their_results_round_trip_in_a_chat(sdk: Any, engine: ScriptedEngine, target: str, streamed: bool):
    engine.script = respond_with(CALLS, GREETING)
    config = types.GenerateContentConfig(tools=TOOLS, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True))
    chat = sdk.chats.create(model=NAMES[target], config=config)
    if streamed:
        parts = [p async for chunk in await chat.send_message_stream("Hello!") for p in chunk.candidates[0].content.parts or ()]
    else:
        parts = (await chat.send_message("Hello!")).candidates[0].content.parts
    calls = [part.function_call for part in parts if part.function_call is not None]
    assert [(call.name, call.args) for call in calls] == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    results = [types.Part.from_function_response(name=call.name, response={"output": f"18 in {call.args['city']}"}) for call in calls]
    last = await chat.send_message(results)
    assert last.text == HELLO.text
    sent = engine.requests[-1].raw
    assert sent.index(b"18 in Paris") < sent.index(b"18 in Rome") and (target == GEMINI or b"call_paris" in sent)


@every_engine_api
async def test_functions_are_called_automatically(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS, GREETING)

    def get_weather(city: str) -> str:
        """Gets the weather.

        Args:
            city: The city.
        """
        return f"rain in {city}"

    answer = await sdk.models.generate_content(model=NAMES[target], contents="Hello!", config={"tools": [get_weather]})
    assert answer.text == HELLO.text and b"rain in Rome" in engine.requests[-1].raw


@every_engine_api
@pytest.mark.parametrize("field", ["response_schema", "response_json_schema"])
async def test_schema_is_enforced_and_parsed(sdk: Any, engine: ScriptedEngine, target: str, field: str):
    engine.script = respond_with(Situation(name="city", parts=(Text('{"city": "Paris"}'),)))
    schema: Any = City if field == "response_schema" else City.model_json_schema()
    answer = await sdk.models.generate_content(
        model=NAMES[target], contents="Hello!", config={"response_mime_type": "application/json", field: schema}
    )
    assert answer.text == '{"city": "Paris"}' and b"city" in engine.requests[-1].raw
    assert field != "response_schema" or answer.parsed == City(city="Paris")


@every_engine_api
async def test_inline_image_reaches_the_model(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    image = types.Part.from_bytes(data=PNG, mime_type="image/png")
    assert (await sdk.models.generate_content(model=NAMES[target], contents=[image, "What is it?"])).text == HELLO.text
    assert base64.b64encode(PNG)[:40] in engine.requests[-1].raw


@pytest.mark.parametrize("streamed", [False, True])
async def test_signature_of_claude_survives_a_turn_of_a_gemini_caller(sdk: Any, engine: ScriptedEngine, streamed: bool):
    """Thoughts may be left out of what is sent back: the call carries them."""
    thought = Reasoning("Where?", OpaqueState(ANTHROPIC, "c2lnbmVk"))
    engine.script = respond_with(Situation(name="thought", parts=(thought, PARIS), finish="tool_calls"), GREETING)
    config = types.GenerateContentConfig(
        tools=TOOLS,
        max_output_tokens=5000,
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=2000),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    arguments: Any = {"model": NAMES[ANTHROPIC], "contents": "Hello!", "config": config}
    if streamed:
        parts = [p async for c in await sdk.models.generate_content_stream(**arguments) for p in c.candidates[0].content.parts or ()]
    else:
        parts = (await sdk.models.generate_content(**arguments)).candidates[0].content.parts
    assert "".join(part.text or "" for part in parts if part.thought) == "Where?"
    for kept in (parts, [part for part in parts if not part.thought]):
        engine.script = respond_with(GREETING)
        result = types.Part.from_function_response(name="get_weather", response={"output": "18"})
        contents = [
            types.Content(role="user", parts=[types.Part(text="Hello!")]),
            types.Content(role="model", parts=kept),
            types.Content(role="user", parts=[result]),
        ]
        await sdk.models.generate_content(model=NAMES[ANTHROPIC], contents=contents, config=config)
        assistant = engine.requests[-1].body["messages"][1]["content"]
        assert [block["type"] for block in assistant] == ["thinking", "tool_use"]
        assert (assistant[0]["thinking"], assistant[0]["signature"]) == ("Where?", "c2lnbmVk")


async def test_signature_of_gemini_is_sent_back_unchanged(sdk: Any, engine: ScriptedEngine):
    signature = b"signed by google"

    async def script(request: ReceivedRequest) -> None:
        part: Any = {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": base64.b64encode(signature).decode()}
        candidate: Any = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        await request.respond(200, json.dumps({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1}}).encode())

    engine.script = script
    answer = await sdk.models.generate_content(model="google", contents="Hello!", config={"tools": TOOLS})
    content = answer.candidates[0].content
    assert content.parts[0].thought_signature == signature
    result = types.Content(role="user", parts=[types.Part.from_function_response(name="get_weather", response={"output": "1"})])
    await sdk.models.generate_content(
        model="google", contents=[types.Content(role="user", parts=[types.Part(text="Hi")]), content, result], config={"tools": TOOLS}
    )
    sent = engine.requests[-1].body["contents"][1]["parts"][0]
    assert base64.urlsafe_b64decode(sent["thoughtSignature"]) == signature


async def test_unknown_fields_reach_gemini_untouched(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    body = {
        "contents": [{"parts": [{"text": "Hi"}]}],
        "safetySettings": settings,
        "newField": {"a_b": 1},
        "generation_config": {"top_k": 3},
    }
    async with service.client() as client:
        answer = await client.post("/v1/models/google:generateContent", json=body)
    assert answer.status_code == 200, answer.text
    sent = engine.requests[-1].body
    assert (sent["safetySettings"], sent["newField"], sent["generationConfig"]) == (settings, {"a_b": 1}, {"topK": 3})
    assert not {"model", "stream"} & sent.keys()


@pytest.mark.parametrize("target", [CHAT, RESPONSES, ANTHROPIC])
async def test_safety_settings_are_hints_elsewhere(service: Service, sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(GREETING)
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "safetySettings": settings}
    async with service.client() as client:
        answer = await client.post(f"/v1beta/models/{NAMES[target]}:generateContent", json=body)
    assert (answer.status_code, answer.headers["x-narthex-dropped"]) == (200, "safetySettings")


async def test_top_k_that_the_gemini_cli_always_sends_is_a_hint(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"topK": 64, "topP": 0.95, "temperature": 1}}
    async with service.client() as client:
        answer = await client.post(f"/v1beta/models/{NAMES[RESPONSES]}:generateContent", json=body)
    assert (answer.status_code, answer.headers["x-narthex-dropped"]) == (200, "generationConfig.topK")
