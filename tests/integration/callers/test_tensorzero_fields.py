"""TensorZero's fields of how the gateway serves a request: each is honoured, reported or refused by name, in its API and in OpenAI's."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]


async def _send(client: httpx2.AsyncClient, native: bool, model: str = "scripted", **fields: Any) -> httpx2.Response:
    if native:
        return await client.post("/inference", json={"model_name": model, "input": {"messages": HI}, **fields})
    named = {f"tensorzero::{name}": value for name, value in fields.items()}
    return await client.post("/openai/v1/chat/completions", json={"model": f"tensorzero::model_name::{model}", "messages": HI, **named})


async def _record(client: httpx2.AsyncClient, response: httpx2.Response) -> Any:
    id = response.headers["x-narthex-inference-id"]
    for _ in range(200):
        found = await client.get(f"/v1/inferences/{id}")
        if found.status_code == 200:
            return found.json()
        await asyncio.sleep(0.05)
    raise AssertionError("the inference is not recorded")


both = pytest.mark.parametrize("native", [True, False], ids=["inference", "chat"])


@both
async def test_extra_body_and_headers_reach_the_target_that_they_are_for(client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool):
    response = await _send(
        client,
        native,
        extra_body=[
            {"pointer": "/thinking", "value": {"type": "enabled"}},
            {"pointer": "/safety/level", "value": 3, "model_name": "scripted"},
            {"pointer": "/here", "value": True, "model_name": "scripted", "provider_name": "first"},
            {"pointer": "/elsewhere", "value": True, "model_name": "scripted", "provider_name": "second"},
            {"pointer": "/of_variant", "value": True, "variant_name": "v"},
        ],
        extra_headers=[{"name": "X-Safety-Checks", "value": "off"}, {"name": "X-Other", "value": "1", "model_name": "other"}],
    )
    assert response.status_code == 200, response.text
    sent = engine.requests[0]
    assert {key: sent.body.get(key) for key in ("thinking", "safety", "here", "elsewhere", "of_variant")} == {
        **{"thinking": {"type": "enabled"}, "safety": {"level": 3}, "here": True, "elsewhere": None, "of_variant": None}
    }
    assert sent.headers["x-safety-checks"] == "off" and "x-other" not in sent.headers
    assert not any("::" in key or key in ("extra_body", "extra_headers") for key in sent.body)
    assert "x-narthex-dropped" not in response.headers


@both
async def test_extra_body_obeys_the_lists_of_restricted_fields(client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool):
    response = await _send(client, native, extra_body=[{"pointer": "/lora_path", "value": "other"}])
    assert response.status_code == 400 and "lora_path" in response.text and engine.requests == [], response.text


@both
async def test_provider_tools_stand_among_the_tools_of_the_target(client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool):
    other, here = {"type": "no"}, {"type": "function", "function": {"name": "f"}}
    tools = [{"scope": {"model_name": "other"}, "tool": other}, {"scope": None, "tool": here}]
    response = await _send(client, native, provider_tools=tools)
    assert response.status_code == 200, response.text
    assert engine.requests[0].body["tools"] == [here]


@both
async def test_beta_of_anthropic_goes_to_targets_that_speak_messages_alone(
    client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool
):
    engine.script = lambda request: request.respond(
        200,
        json.dumps(
            {
                **{"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi."}]},
                **{"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}},
            }
        ).encode(),
    )
    headers = [{"name": "anthropic-beta", "value": "context-1m-2025-08-07"}]
    assert (await _send(client, native, "claude", extra_headers=headers)).status_code == 200
    assert engine.requests[0].headers["anthropic-beta"] == "context-1m-2025-08-07"


@both
@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("dryrun", True, 422),
        ("include_raw_response", True, 422),
        ("include_raw_usage", True, 422),
        ("namespace", "", 400),
        ("cache_options", {"enabled": "sometimes"}, 400),
        ("credentials", {"key": 1}, 400),
        ("extra_body", [{"pointer": "/max_tokens", "value": 5}], 400),
        ("extra_headers", [{"name": "authorization", "value": "Bearer x"}], 400),
        ("provider_tools", [{"type": "web_search"}], 400),
    ],
)
async def test_field_is_refused_by_its_name(
    client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool, field: str, value: Any, status: int
):
    response = await _send(client, native, **{field: value})
    message = response.json()["error"] if native else response.json()["error"]["message"]
    assert response.status_code == status and f"`{'' if native else 'tensorzero::'}{field}" in message, response.text


@both
async def test_neutral_values_change_nothing(client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool):
    neutral: dict[str, Any] = {
        "dryrun": False,
        "cache_options": {"enabled": "off"},
        "credentials": {},
        "extra_body": [],
        "extra_headers": [],
    }
    response = await _send(client, native, **neutral, include_raw_response=False, include_raw_usage=None, provider_tools=[])
    assert response.status_code == 200 and "x-narthex-dropped" not in response.headers, response.text


@both
async def test_namespace_is_a_tag_and_a_cache_that_is_none_is_reported(client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool):
    response = await _send(client, native, namespace="eu", cache_options={"enabled": "on", "max_age_s": 60}, tags={"a": "b"})
    assert response.headers["x-narthex-dropped"] == ("cache_options" if native else "tensorzero::cache_options")
    assert (await _record(client, response))["tags"] == {"a": "b", "tensorzero::namespace": "eu"}


@both
async def test_credential_of_the_body_goes_to_the_provider_that_takes_it(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, native: bool
):
    service.apply(f"""
        [providers.tz-own]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        credential = "header:x-tz-own-key"
        [models.tz-own]
        targets = [{{ provider = "tz-own", model = "engine-model" }}]
    """)
    response = await _send(client, native, "tz-own", credentials={"tz_own_key": "sk-of-the-caller"})
    assert response.status_code == 200, response.text
    assert engine.requests[0].headers["authorization"] == "Bearer sk-of-the-caller" and "x-narthex-dropped" not in response.headers
    assert "sk-of-the-caller" not in json.dumps(await _record(client, response))
    unused = await _send(client, native, credentials={"nobodys": "sk-of-the-caller"})
    assert unused.headers["x-narthex-dropped"] == ("credentials" if native else "tensorzero::credentials")
    assert not any("sk-of-the-caller" in value for value in engine.requests[1].headers.values())


async def test_params_come_before_the_fields_of_chat(client: httpx2.AsyncClient, engine: ScriptedEngine):
    params = {"temperature": 0.5, "max_tokens": 7, "stop_sequences": ["x"], "json_mode": "on"}
    body = {"model": "scripted", "messages": HI, "temperature": 1, "max_tokens": 100, "tensorzero::params": {"chat_completion": params}}
    engine.script = lambda request: request.respond_completion("{}")
    response = await client.post("/v1/chat/completions", json=body)
    sent = engine.requests[0].body
    assert response.status_code == 200, response.text
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.5, 7, ["x"])
    assert sent["response_format"] == {"type": "json_object"}
    for wrong in ({"temperature": 9}, {"top_k": 1}, {"json_mode": "strict"}, {"thinking_budget_tokens": 5}):
        refused = await client.post("/v1/chat/completions", json={**body, "tensorzero::params": {"chat_completion": wrong}})
        assert refused.status_code in (400, 422) and "tensorzero::params" in refused.json()["error"]["message"], refused.text


async def test_unknown_fields_are_denied_where_the_caller_says_so(client: httpx2.AsyncClient, engine: ScriptedEngine):
    body = {"model": "scripted", "messages": HI, "temperature": 1, "min_p": 0.1, "tensorzero::deny_unknown_fields": True}
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200 and len(engine.requests) == 1
    denied = await client.post("/v1/chat/completions", json={**body, "ultrathink": True})
    assert denied.status_code == 400 and denied.json()["error"]["param"] == "ultrathink"


async def test_overrides_are_refused_where_there_is_no_chat(client: httpx2.AsyncClient):
    extra = {"tensorzero::extra_body": [{"pointer": "/a", "value": 1}]}
    response = await client.post("/openai/v1/embeddings", json={"model": "sandbox-embed", "input": "x", **extra})
    assert response.status_code == 422 and response.json()["error"]["param"] == "tensorzero::extra_body"
