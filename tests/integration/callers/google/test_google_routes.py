"""Google's routes: counts, embeddings, models, keys, errors, and what the gateway does itself for their callers."""

import json
from typing import Any

import httpx2
import pytest
from google.genai import errors, types

from providers.canonical.chat import Text
from tests.conformance.situations import ANTHROPIC, CHAT, GEMINI, HELLO, PARIS, RESPONSES, Situation
from tests.support.google_callers import CALLS, GREETING, NAMES, TOOLS, every_engine_api, google_sdk, sdk_of
from tests.support.processes.service import Service
from tests.support.scripted_dialects import break_midway, fail_with, respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

__all__ = ["google_sdk"]


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


async def test_limit_is_reported_in_googles_shape(service: Service, sdk: Any, engine: ScriptedEngine):
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
    fault: Any = raised.value  # its details have no known type
    details = fault.details
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert any(each["@type"].endswith("RetryInfo") for each in details["error"]["details"])
