"""The official google-genai SDK against the gateway, whichever API the engine speaks."""

import base64
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

from providers.canonical.chat import OpaqueState, Reasoning, Text
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, HELLO, PARIS, RESPONSES, ROME, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS, break_midway, fail_with, respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

GEMINI = "gemini"
NAMES = {**MODELS, GEMINI: "google"}
DECLARATION: Any = {
    "name": "get_weather",
    "description": "d",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
}
TOOLS: Any = [{"function_declarations": [DECLARATION]}]
GREETING = Situation(name="greeting", parts=(HELLO,))
CALLS = Situation(name="calls", parts=(HELLO, PARIS, ROME), finish="tool_calls")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
every_engine_api = pytest.mark.parametrize("target", [*ALL, GEMINI])


class City(BaseModel):
    city: str


@pytest.fixture
async def sdk(service: Service, engine: ScriptedEngine) -> AsyncGenerator[Any]:
    """The SDK as applications use it: only the base address is ours."""
    service.apply(f"""
        [providers.google]
        adapter = "gemini"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.google]
        targets = [{{ provider = "google", model = "gemini-3-flash" }}]
    """)
    async with sdk_of(service).aio as client:
        yield client


def sdk_of(service: Service, **options: Any) -> genai.Client:
    return genai.Client(api_key=options.pop("key", service.key), http_options=types.HttpOptions(base_url=service.url, **options))


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
        part = {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": base64.b64encode(signature).decode()}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
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


@every_engine_api
async def test_tokens_are_counted(sdk: Any, engine: ScriptedEngine, target: str):
    async def count(request: ReceivedRequest) -> None:
        await request.respond(200, b'{"totalTokens": 42, "input_tokens": 42}')

    engine.script = count
    counted = await sdk.models.count_tokens(model=NAMES[target], contents="How many?")
    assert counted.total_tokens == 42 if target in (ANTHROPIC, GEMINI) else counted.total_tokens > 3


async def test_texts_are_embedded(service: Service, sdk: Any):
    one = await sdk.models.embed_content(model="sandbox-embed", contents="a red fox")
    two = await sdk.models.embed_content(model="sandbox-embed", contents=["a red fox", "the stock market"])
    assert len(two.embeddings) == 2 and two.embeddings[0].values == one.embeddings[0].values != two.embeddings[1].values
    async with service.client() as client:
        body = {"content": {"parts": [{"text": "a red fox"}]}}
        answer = await client.post("/v1beta/models/sandbox-embed:embedContent", json=body)
    assert answer.json()["embedding"]["values"] == pytest.approx(one.embeddings[0].values)


async def test_embeddings_come_from_gemini_too(sdk: Any, engine: ScriptedEngine):
    async def embed(request: ReceivedRequest) -> None:
        await request.respond(200, b'{"embeddings": [{"values": [0.5, 1]}]}')

    engine.script = embed
    config = {"output_dimensionality": 2, "task_type": "RETRIEVAL_QUERY"}
    answer = await sdk.models.embed_content(model="google", contents="a red fox", config=config)
    assert answer.embeddings[0].values == [0.5, 1]
    (sent,) = engine.requests[-1].body["requests"]
    assert (sent["outputDimensionality"], sent["taskType"]) == (2, "RETRIEVAL_QUERY")


@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
async def test_models_are_listed_and_shown(service: Service, version: str):
    async with sdk_of(service, api_version=version).aio as client:
        names = [model.name async for model in await client.models.list()]
        assert {"models/sandbox", "models/sandbox-embed"} <= set(names)
        shown = await client.models.get(model="sandbox")
    assert shown.name == "models/sandbox" and "generateContent" in (shown.supported_actions or ())


async def test_models_are_listed_in_pages(service: Service):
    async with service.client() as client:
        first = (await client.get("/v1beta/models?pageSize=1")).json()
        second = (await client.get(f"/v1beta/models?pageSize=1&pageToken={first['nextPageToken']}")).json()
    (one,), (two,) = first["models"], second["models"]
    assert one["name"] < two["name"]


@pytest.mark.parametrize("place", ["header", "query", "bearer"])
async def test_key_is_read_from_each_of_its_places(service: Service, place: str):
    headers = {"header": {"x-goog-api-key": service.key}, "query": {}, "bearer": {"authorization": f"Bearer {service.key}"}}[place]
    query = f"?key={service.key}" if place == "query" else ""
    body = {"contents": [{"parts": [{"text": "Hi"}]}]}
    async with service.keyless_client() as client:
        answer = await client.post(f"/v1beta/models/sandbox:generateContent{query}", json=body, headers=headers)
        models = await client.get(f"/v1beta/models{query}", headers=headers)
        plain = await client.get(f"/v1/models{query}", headers=headers)
    assert (answer.status_code, models.status_code, plain.status_code) == (200, 200, 200), answer.text + models.text + plain.text
    assert ("models" in plain.json()) == (place != "bearer")


async def test_two_different_keys_are_refused(service: Service):
    async with service.client() as client:
        answer = await client.post("/v1beta/models/sandbox:generateContent?key=sk-other", json={"contents": [{"parts": [{"text": "Hi"}]}]})
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_unknown_key_is_unauthenticated(service: Service):
    async with sdk_of(service, key="sk-nobody").aio as client:
        with pytest.raises(errors.ClientError) as raised:
            await client.models.generate_content(model="sandbox", contents="Hi")
        with pytest.raises(errors.ClientError) as of_models:
            await client.models.get(model="sandbox")
    assert (raised.value.code, raised.value.status) == (of_models.value.code, of_models.value.status) == (401, "UNAUTHENTICATED")


async def test_unknown_model_is_not_found(sdk: Any):
    with pytest.raises(errors.ClientError) as raised:
        await sdk.models.generate_content(model="nothing", contents="Hi")
    assert (raised.value.code, raised.value.status) == (404, "NOT_FOUND") and "nothing" in (raised.value.message or "")


async def test_invalid_request_names_the_field(service: Service):
    async with service.client() as client:
        answer = await client.post("/v1beta/models/sandbox:generateContent", json={"contents": [{"parts": [{"text": 5}]}]})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    violations = [each["fieldViolations"] for each in error["details"] if each["@type"].endswith("BadRequest")]
    assert violations[0][0]["field"] == "contents[0].parts[0].text"


async def test_unsupported_field_is_refused_by_the_callers_name_or_dropped(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    config: Any = {"frequency_penalty": 0.5}
    with pytest.raises(errors.ClientError) as raised:
        await sdk.models.generate_content(model=NAMES[ANTHROPIC], contents="Hi", config=config)
    assert raised.value.code == 422 and "`generationConfig.frequencyPenalty`" in (raised.value.message or "")
    options = types.HttpOptions(headers={"x-narthex-drop": "generationConfig.frequencyPenalty"})
    answer = await sdk.models.generate_content(model=NAMES[ANTHROPIC], contents="Hi", config={**config, "http_options": options})
    assert answer.text == HELLO.text


@every_engine_api
async def test_overloaded_engine_is_exhausted_with_the_time_to_wait(service: Service, sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = fail_with(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, "retry-after: 7")
    async with service.client() as client:
        answer = await client.post(f"/v1beta/models/{NAMES[target]}:generateContent", json={"contents": [{"parts": [{"text": "Hi"}]}]})
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert [each["retryDelay"] for each in error["details"] if each["@type"].endswith("RetryInfo")] == ["7s"]


@every_engine_api
async def test_truncated_response_is_an_error_in_the_stream(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = break_midway(Situation(name="long", parts=(Text("word " * 50),), pieces=50))
    with pytest.raises(errors.APIError) as raised:
        async for _ in await sdk.models.generate_content_stream(model=NAMES[target], contents="Hi"):
            pass
    assert "midway" in str(raised.value)


async def test_truncated_response_is_an_error_in_the_array(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = break_midway(Situation(name="long", parts=(Text("word " * 50),), pieces=50))
    async with service.client() as client:
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        answer = await client.post(f"/v1beta/models/{NAMES[CHAT]}:streamGenerateContent", json=body)
    assert "midway" in answer.json()[-1]["error"]["message"]


async def test_uploads_and_other_services_are_refused_by_name(service: Service, sdk: Any):
    async with service.client() as client:
        for method, path, word in (
            ("POST", "/upload/v1beta/files", "inlineData"),
            ("GET", "/v1beta/files", "inlineData"),
            ("DELETE", "/v1beta/files/abc", "inlineData"),
            ("POST", "/v1beta/cachedContents", "cached"),
            ("POST", "/v1beta/interactions", "generateContent"),
            ("POST", "/v1beta/models/sandbox:predict", "generateContent"),
        ):
            answer = await client.request(method, path, json={})
            error = answer.json()["error"]
            assert (answer.status_code, error["status"]) == (501, "UNIMPLEMENTED"), path
            assert word in error["message"]
        unknown = await client.get("/v1beta/nothing")
    assert unknown.json()["error"]["status"] == "NOT_FOUND"


async def test_request_is_recorded_with_its_model_and_normal_messages(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(CALLS)
    async with service.client() as client:
        body = {"contents": [{"parts": [{"text": "Hello!"}]}], "systemInstruction": {"parts": [{"text": "Be brief."}]}}
        answer = await client.post(f"/v1beta/models/{NAMES[CHAT]}:streamGenerateContent?alt=sse", json={**body, "tools": TOOLS})
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["route"], record["model"], record["outcome"]) == (GEMINI, NAMES[CHAT], "answered")
    assert httpx2.codes.is_success(record["status"])


async def test_candidates_are_requested_one_by_one_where_a_target_gives_one(sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(*[Situation(name="greeting", parts=(Text(f"Hello {at}."),)) for at in range(3)])
    answer = await sdk.models.generate_content(model=NAMES[ANTHROPIC], contents="Hi", config={"candidate_count": 3})
    assert sorted(each.content.parts[0].text for each in answer.candidates) == ["Hello 0.", "Hello 1.", "Hello 2."]
    assert answer.usage_metadata.prompt_token_count == 60


@pytest.mark.parametrize("streamed", [False, True])
async def test_stop_sequence_is_honoured_where_a_target_has_none(sdk: Any, engine: ScriptedEngine, streamed: bool):
    engine.script = respond_with(Situation(name="long", parts=(Text("one two END three"),)))
    arguments: Any = {"model": NAMES[RESPONSES], "contents": "Hi", "config": {"stop_sequences": ["END"]}}
    if streamed:
        text = "".join([chunk.text or "" async for chunk in await sdk.models.generate_content_stream(**arguments)])
    else:
        text = (await sdk.models.generate_content(**arguments)).text
    assert text == "one two "


async def test_history_of_another_model_reaches_gemini_with_a_placeholder_for_its_signatures(sdk: Any, engine: ScriptedEngine):
    """Gemini 3 refuses a history whose calls have no signature."""
    engine.script = respond_with(Situation(name="call", parts=(PARIS,), finish="tool_calls"), GREETING)
    config = types.GenerateContentConfig(tools=TOOLS, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True))
    content = (await sdk.models.generate_content(model=NAMES[CHAT], contents="Hi", config=config)).candidates[0].content
    result = types.Content(role="user", parts=[types.Part.from_function_response(name="get_weather", response={"output": "18"})])
    contents = [types.Content(role="user", parts=[types.Part(text="Hi")]), content, result]
    await sdk.models.generate_content(model="google", contents=contents, config=config)
    (call,) = engine.requests[-1].body["contents"][1]["parts"]
    assert call["thoughtSignature"] == "skip_thought_signature_validator"


async def test_function_is_called_by_its_name_with_its_templates_and_parameters(service: Service, sdk: Any, engine: ScriptedEngine):
    service.apply("""
        [functions.google-answers]
        type = "chat"
        [functions.google-answers.variants.only]
        model = "google"
        system_template = "Be kind. {{ system_text }}"
        params = { temperature = 0.25, max_tokens = 77, reasoning_effort = "low" }
    """)
    engine.script = respond_with(GREETING)
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "systemInstruction": {"parts": [{"text": "Answer Ada."}]}}
    async with service.client() as client:
        answer = await client.post("/v1beta/models/google-answers:generateContent", json=body)
    assert answer.status_code == 200, answer.text
    sent = engine.requests[-1].body
    assert sent["systemInstruction"]["parts"] == [{"text": "Be kind. Answer Ada."}]
    assert sent["generationConfig"] == {"temperature": 0.25, "maxOutputTokens": 77, "thinkingConfig": {"thinkingLevel": "LOW"}}
    assert answer.headers["x-narthex-variant"] == "only"


async def test_recorded_request_is_shown_as_messages(service: Service, sdk: Any, engine: ScriptedEngine):
    engine.script = respond_with(CALLS)
    async with service.client() as client:
        body = {"contents": [{"parts": [{"text": "Hello!"}]}], "systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": TOOLS}
        answer = await client.post(f"/v1beta/models/{NAMES[ANTHROPIC]}:streamGenerateContent?alt=sse", json=body)
    id = answer.headers["x-narthex-inference-id"]
    await service.wait_for_record(id)
    async with service.admin_client() as admin:
        shown = (await admin.get(f"/admin/v1/inferences/{id}?content=messages")).json()["messages"]
    assert [message["role"] for message in shown["input"]] == ["system", "user"] and shown["problems"] == []
    assert "get_weather" in json.dumps(shown["output"]) and "get_weather" in json.dumps(shown["tools"])


async def test_refusal_by_a_limit_has_googles_shape(service: Service, sdk: Any, engine: ScriptedEngine):
    service.apply("""
        [teams.google-limited]
        [[limits]]
        name = "one request of google-limited"
        scope = { team = "google-limited" }
        resource = "requests"
        amount = 1
        per = "hour"
    """)
    key = service.run("keys", "create", "--team", "google-limited", "--quiet").stdout.strip()
    async with sdk_of(service, key=key).aio as client:
        await client.models.generate_content(model="sandbox", contents="Hi")
        with pytest.raises(errors.ClientError) as raised:
            await client.models.generate_content(model="sandbox", contents="Hi")
    details: Any = raised.value.details
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert any(each["@type"].endswith("RetryInfo") for each in details["error"]["details"])
