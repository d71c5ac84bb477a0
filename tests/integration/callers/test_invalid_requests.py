"""Invalid requests and engine errors: callers get the documented envelope, with the location of the mistake and what to do."""

import json
from typing import Any

import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.integration.conftest import MOST_BODY_BYTES
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b'{"model": "scripted", "messages": [}', "byte 35", None),
        (b'{"model": "scripted"', "ends too early (byte 20)", None),
        (b"", "ends too early", None),
        (b"[1, 2]", "must be a JSON object", None),
        (b'"text"', "must be a JSON object", None),
        (b'{"messages": [{"role": "user"}]}', "missing required field `model`", "model"),
        (b'{"model": "scripted"}', "missing required field `messages`", "messages"),
        (b'{"model": 5, "messages": []}', "Expected `str`, got `int` at `model`", "model"),
        (b'{"model": "m", "messages": [{"role": "user", "content": 1}]}', "at `messages[0].content`", "messages[0].content"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 9}', "<= 2.0 at `temperature`", "temperature"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "stop": [1]}', "at `stop[0]`", "stop[0]"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "\xff"}]}', "not UTF-8", None),
        (b'{"model": "m", "messages": [{"role": "user", "content": "\\ud83d"}]}', "half a surrogate pair (byte 57)", None),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "stream_options": {}}', "stream: true", "stream_options"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "x": ' + b"[" * 8_000 + b"]" * 8_000 + b"}", "too deeply", None),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "x": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", "levels", None),
    ],
)
async def test_malformed_body_is_refused_with_its_location(client: httpx2.AsyncClient, body: bytes, message: str, param: str | None):
    answer = await client.post(CHAT, content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"], error["param"]) == (400, "invalid_request_error", 400, param)
    assert message in error["message"]


async def test_body_that_is_parsed_and_too_deep_to_be_translated_is_a_400(client: httpx2.AsyncClient, engine: ScriptedEngine):
    """The code that reads a part of the body has more calls on the stack than the parser had."""
    errors: set[tuple[int, str]] = set()
    for levels in range(900, 1000, 2):
        nested = b'{"a":' * levels + b"1" + b"}" * levels
        tools = b'[{"type": "function", "name": "t", "parameters": {"type": "object", "x": %b}}]' % nested
        answer = await client.post("/v1/responses", content=b'{"model": "unreachable", "input": "Hello!", "tools": %b}' % tools)
        errors.add((answer.status_code, answer.json()["error"]["message"][:30]))
    assert len(errors) == 2 and {status for status, _ in errors} == {502, 400}, errors
    assert (400, "The body is nested too deeply.") in errors


@pytest.mark.parametrize(
    ("path", "model", "field"),
    [
        (CHAT, "scripted", b'"max_new_tokens": 1e400'),
        (CHAT, "scripted", b'"lora_path": 1e400'),
        (CHAT, "vllm", b'"best_of": 1e400'),
        (CHAT, "scripted", b'"tensorzero::extra_body": [{"pointer": "/a", "value": 1e400}]'),
        ("/v1/limits/preview", "scripted", b'"max_new_tokens": 1e400'),
    ],
)
async def test_number_that_nothing_can_hold_is_a_400_wherever_it_is(
    client: httpx2.AsyncClient, engine: ScriptedEngine, path: str, model: str, field: bytes
):
    body = b'{"model": "%b", "messages": [{"role": "user", "content": "x"}], %b}' % (model.encode(), field)
    answer = await client.post(path, content=body)
    assert answer.status_code == 400 and "out of range" in answer.json()["error"]["message"], answer.text
    assert not engine.requests


@pytest.mark.parametrize(
    ("field", "name"), [("Model", "model"), ("MAX_TOKENS", "max_tokens"), ("N", "n"), ("\u017ftream", "stream"), ("Lora_Path", "lora_path")]
)
async def test_field_in_other_letters_is_refused(client: httpx2.AsyncClient, engine: ScriptedEngine, field: str, name: str):
    """A server written in Go takes it for the field of that name."""
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, field: 1})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field) and f"write `{name}`" in error["message"]
    assert not engine.requests


async def test_unknown_field_in_any_letters_is_sent(client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "topK": 5, "7": 1, "X-Y": 2})
    assert answer.status_code == 200 and engine.requests[-1].body["topK"] == 5


@pytest.mark.parametrize("field", ["audio_url", "video_url", "image_url"])
async def test_url_in_a_part_of_text_reaches_no_engine(client: httpx2.AsyncClient, engine: ScriptedEngine, field: str):
    """vLLM reads it where the part has a `uuid`, whatever its type is."""
    part = {"type": "text", "text": "Hi", "uuid": "1", field: "http://127.0.0.1/secret"}
    answer = await client.post(CHAT, json={"model": "vllm", "messages": [{"role": "user", "content": [part]}]})
    assert answer.status_code == 400 and "no public address" in answer.json()["error"]["message"]
    assert not engine.requests


@pytest.mark.parametrize(
    ("path", "field"), [(CHAT, "messages"), ("/v1/messages", "messages"), ("/v1/responses", "input"), ("/v1/limits/preview", "messages")]
)
async def test_body_of_too_many_messages_names_the_cap(client: httpx2.AsyncClient, path: str, field: str):
    body = {"model": "scripted", "max_tokens": 5, field: [{"role": "user", "content": "Hello!"}] * 12_000}
    answer = await client.post(path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert f"12000 `{field}`" in error["message"] and "NARTHEX_MAX_MESSAGES" in error["message"]


@pytest.mark.parametrize("model", ["scripted", "responses"])
async def test_large_body_is_served_in_the_same_dialect_and_in_another(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    if model == "responses":
        engine.script = lambda request: request.respond(400, b'{"error": {"message": "refused", "type": "invalid_request_error"}}')
    answer = await client.post(CHAT, json={"model": model, "messages": [{"role": "user", "content": "Hello!"}] * 3_000})
    sent = engine.requests[-1].body
    assert answer.status_code == (200 if model == "scripted" else 400)
    assert len(sent["messages" if model == "scripted" else "input"]) == 3_000


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_over_the_limit_is_413(client: httpx2.AsyncClient, chunked: bool):
    big = b"x" * (MOST_BODY_BYTES + 1)

    async def pieces():
        for start in range(0, len(big), 100_000):
            yield big[start : start + 100_000]

    answer = await client.post(CHAT, content=pieces() if chunked else big)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413) and str(MOST_BODY_BYTES) in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/"])
async def test_path_that_is_nearly_right_is_404_with_the_path_meant(client: httpx2.AsyncClient, path: str):
    answer = await client.post(path, json={"model": "scripted", "messages": HI})
    assert answer.status_code == 404 and "The path is /v1/chat/completions." in answer.json()["error"]["message"]


async def test_unknown_model_is_404_with_the_usable_ones(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    with pytest.raises(openai.NotFoundError) as caught:
        await sdk.chat.completions.create(model="gpt-99", messages=HI)
    assert "'gpt-99'" in caught.value.message and "accepting" in caught.value.message and caught.value.param == "model"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nx-wrong"}, {"authorization": "Basic abc"}, {"x-api-key": "nx-wrong"}])
async def test_wrong_or_missing_key_is_401(service: Service, headers: dict[str, str]):
    async with service.keyless_client() as client:
        for answer in (await client.post(CHAT, headers=headers, content=b"{}"), await client.get("/v1/models", headers=headers)):
            assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
            assert answer.headers["x-request-id"] and "nx-wrong" not in answer.text


async def test_openai_sdk_raises_its_authentication_error(service: Service):
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key="nx-wrong") as sdk:
        with pytest.raises(openai.AuthenticationError):
            await sdk.chat.completions.create(model="sandbox", messages=HI)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", CHAT, 405), ("DELETE", "/v1/models", 405), ("POST", "/v1/nothing", 404)])
async def test_unknown_routes_and_wrong_methods_use_the_error_envelope(client: httpx2.AsyncClient, method: str, path: str, status: int):
    answer = await client.request(method, path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], set(error)) == (status, status, {"message", "type", "code", "param"})
    assert status != 405 or answer.headers["allow"]


async def test_health_routes_answer_head_requests(client: httpx2.AsyncClient):
    for path in ("/health/live", "/health/ready"):
        assert (await client.head(path)).status_code == 200


async def test_nul_character_in_an_admin_filter_is_400(service: Service):
    async with service.admin_client() as admin:
        assert (await admin.get("/admin/v1/inferences?model=%00")).status_code == 400


@pytest.mark.parametrize("episode", [uuid7.lowest_at(32_503_680_000_000), "", "x" * 129, "a\nb", " a"])
async def test_episode_that_cannot_be_named_so_is_400(client: httpx2.AsyncClient, episode: str):
    answer = await client.post(CHAT, json={"model": "sandbox", "messages": HI, "episode_id": episode})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "episode_id")


async def test_episode_header_that_is_no_utf8_is_400_in_each_api(client: httpx2.AsyncClient):
    headers = [(b"x-narthex-episode-id", "Gespräch".encode("latin-1"))]
    answer = await client.post(CHAT, json={"model": "sandbox", "messages": HI}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "episode_id")
    assert "not UTF-8: byte 6 is 0xe4" in answer.json()["error"]["message"]
    answer = await client.post("/v1/messages", json={"model": "sandbox", "messages": HI, "max_tokens": 5}, headers=headers)
    assert (answer.status_code, answer.json()["type"], answer.json()["error"]["type"]) == (400, "error", "invalid_request_error")


async def test_two_episode_ids_in_one_request_are_400(client: httpx2.AsyncClient):
    body = {"model": "sandbox", "messages": HI, "episode_id": uuid7.mint()}
    answer = await client.post(CHAT, json=body, headers={"x-narthex-episode-id": uuid7.mint()})
    assert answer.status_code == 400 and "two episodes" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("model", "fields", "status"),
    [
        ("scripted", {"guided_grammar": "start: /a/"}, 422),
        ("scripted", {"chat_template": "{{ x }}"}, 422),
        ("scripted", {"mm_processor_kwargs": {"a": 1}}, 422),
        ("vllm", {"guided_json": {}, "guided_whitespace_pattern": " "}, 422),
        ("vllm", {"guided_json": {}, "guided_regex": "a"}, 400),
        ("vllm", {"guided_json": {}, "response_format": {"type": "json_object"}}, 400),
        ("vllm", {"guided_json": "{not json"}, 400),
        ("vllm", {"structured_outputs": {"jason": {}}}, 400),
        ("vllm", {"guided_choice": []}, 400),
    ],
)
async def test_unsupported_or_invalid_constraint_field_is_refused_by_name(
    client: httpx2.AsyncClient, engine: ScriptedEngine, model: str, fields: dict[str, Any], status: int
):
    answer = await client.post(CHAT, json={"model": model, "messages": HI, **fields})
    error = answer.json()["error"]
    assert answer.status_code == status and error["type"] == ("unsupported" if status == 422 else "invalid_request_error")
    assert any(field in error["message"] for field in fields) and not [request for request in engine.requests if request.body]


@pytest.mark.parametrize("drop", ["all", "chat_template, guided_regex"])
async def test_drop_header_removes_fields_and_reports_them(client: httpx2.AsyncClient, engine: ScriptedEngine, drop: str):
    body = {"model": "scripted", "messages": HI, "chat_template": "x", "guided_regex": "a", "guided_decoding_backend": "xgrammar"}
    answer = await client.post(CHAT, json=body, headers={"x-narthex-drop": drop})
    assert answer.status_code == 200 and set(engine.requests[0].body) == {"model", "messages"}
    assert set(answer.headers["x-narthex-dropped"].split(", ")) == {"chat_template", "guided_regex", "guided_decoding_backend"}


async def test_accepts_option_sends_an_otherwise_unsupported_field(client: httpx2.AsyncClient, engine: ScriptedEngine):
    body = {"model": "accepting", "messages": HI, "chat_template_kwargs": {"enable_thinking": True}}
    assert (await client.post(CHAT, json=body)).status_code == 200
    assert engine.requests[0].body["chat_template_kwargs"] == {"enable_thinking": True}


async def test_target_that_supports_the_field_serves_instead(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    service.apply('[models.careful]\ntargets = [{ provider = "first", model = "m" }, { provider = "vllm", model = "m" }]')
    answer = await client.post(CHAT, json={"model": "careful", "messages": HI, "guided_regex": "a+"})
    assert answer.status_code == 200 and answer.headers["x-narthex-served"] == "vllm/m"


@pytest.mark.parametrize(
    ("engine_status", "body", "status", "kind", "message"),
    [
        (400, {"error": {"message": "bad seed", "param": "seed", "code": 400}}, 400, "invalid_request_error", "bad seed"),
        (422, {"detail": [{"msg": "not this", "loc": ["x"]}]}, 422, "invalid_request_error", "not this"),
        (404, {"error": "no model"}, 404, "not_found_error", "no model"),
        (401, {"error": {"message": "Incorrect API key provided: sk-abcdefghijkl1234"}}, 502, "backend_error", "own credential"),
        (403, {"object": "error", "message": "forbidden"}, 502, "backend_error", "forbidden"),
        (429, {"error": {"message": "slow down"}}, 429, "service_unavailable_error", "slow down"),
        (503, {"message": "queue is full"}, 503, "service_unavailable_error", "queue is full"),
        (529, {"message": "queue is full"}, 503, "service_unavailable_error", "queue is full"),
        (500, {"error": {"message": "CUDA"}}, 500, "backend_error", "CUDA"),
        (502, {"error": {"message": "CUDA"}}, 502, "backend_error", "CUDA"),
        (402, {"error": {"message": "no funds"}}, 502, "backend_error", "no funds"),
        (302, {}, 502, "backend_error", "302"),
    ],
)
async def test_engine_error_keeps_its_meaning_in_the_error_envelope(
    client: httpx2.AsyncClient, engine: ScriptedEngine, engine_status: int, body: Any, status: int, kind: str, message: str
):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(engine_status, json.dumps(body).encode(), "content-type: application/json\r\nretry-after: 7\r\n")

    engine.script = script
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI})
    error = answer.json()["error"]
    code = "server_is_overloaded" if kind == "service_unavailable_error" else status
    assert (answer.status_code, error["type"], error["code"]) == (status, kind, code) and message in error["message"]
    assert "sk-abcdef" not in answer.text
    assert engine_status not in (429, 503) or answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("body", [b"<html>oh</html>", b"", b"[]", b'{"choices": []}', b'{"choices": 5}', b"\xff\xfe", b'{"a": '])
async def test_invalid_engine_response_is_502_without_its_body(client: httpx2.AsyncClient, engine: ScriptedEngine, body: bytes):
    async def script(request: ReceivedRequest) -> None:
        await request.respond(200, body)

    engine.script = script
    answer = await client.post(CHAT, json={"model": "scripted", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "backend_error") and "html" not in answer.text


async def test_engine_error_sent_with_status_200_is_an_error(client: httpx2.AsyncClient, engine: ScriptedEngine):
    error_body = {"error": {"message": "bad grammar", "type": "BadRequestError", "code": 400}}

    async def respond_with_error(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(error_body).encode())

    for script in (respond_with_error, stream_script(error_body)):
        engine.script = script
        for stream in (False, True):
            if script is respond_with_error or stream:
                answer = await client.post(CHAT, json={"model": "scripted", "messages": HI, "stream": stream})
                assert (answer.status_code, answer.json()["error"]["message"]) == (400, "bad grammar")


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/pooling"])
async def test_field_that_chooses_a_place_is_a_400_before_any_engine_is_called(
    client: httpx2.AsyncClient, engine: ScriptedEngine, path: str
):
    fields = {"input": "x"} if path == "/pooling" else {"messages": HI, "max_tokens": 5}
    answer = await client.post(path, json={"model": "vllm", **fields, "kv_transfer_params": {"remote_host": "10.0.0.1"}})
    assert answer.status_code == 400 and "`kv_transfer_params` is not open to callers of vllm" in answer.text
    assert not any(request.path.startswith("/v1/") and request.body for request in engine.requests)
