"""Anthropic's SDK in the modes of Amazon Bedrock and Vertex AI against the gateway, whichever API the engine speaks."""

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.lib.bedrock import AsyncAnthropicBedrock
from anthropic.lib.vertex import AsyncAnthropicVertex

from providers.dialects.aws.event_stream import EventStreamDecoder
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, HELLO, PARIS, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS, break_midway, fail_with, respond_with
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
TOOLS: Any = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
GREETING = Situation(name="greeting", parts=(HELLO,))
CALLS = Situation(name="calls", parts=(HELLO, PARIS), finish="tool_calls")
INVOKE = "/model/{}/invoke"
every_engine_api = pytest.mark.parametrize("target", ALL)


@pytest.fixture(params=["bedrock", "vertex"])
async def sdk(service: Service, request: pytest.FixtureRequest) -> AsyncGenerator[Any]:
    if request.param == "bedrock":
        client: Any = AsyncAnthropicBedrock(api_key=service.key, aws_region="us-east-1", base_url=service.url, max_retries=0)
    else:
        client = AsyncAnthropicVertex(
            access_token=service.key, project_id="p", region="global", base_url=f"{service.url}/v1", max_retries=0
        )
    async with client:
        yield client


@every_engine_api
async def test_message_is_answered(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS)
    answer = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=HI, tools=TOOLS)
    assert [block.type for block in answer.content] == ["text", "tool_use"] and answer.content[0].text == HELLO.text
    assert (answer.stop_reason, answer.usage.input_tokens) == ("tool_use", 20)
    assert engine.requests[-1].body["model"] == "engine-model" and b"anthropic_version" not in engine.requests[-1].raw


@every_engine_api
async def test_stream_arrives_as_events_of_messages(sdk: Any, engine: ScriptedEngine, target: str):
    engine.script = respond_with(CALLS)
    stream = await sdk.messages.create(model=MODELS[target], max_tokens=100, messages=HI, tools=TOOLS, stream=True)
    events = [event async for event in stream]
    assert (events[0].type, events[-1].type) == ("message_start", "message_stop")
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas if delta.type == "text_delta") == HELLO.text


async def test_error_of_a_host_is_raised_with_its_message(sdk: Any, engine: ScriptedEngine):
    engine.script = fail_with(400, {"error": {"message": "no such temperature"}})
    with pytest.raises(anthropic.BadRequestError, match="no such temperature"):
        await sdk.messages.create(model=MODELS[CHAT], max_tokens=100, messages=HI)


async def test_unknown_key_and_unknown_model_are_refused(service: Service, client: httpx2.AsyncClient):
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": HI}
    unknown = await client.post(INVOKE.format("nothing"), json=body)
    assert (unknown.status_code, unknown.headers["x-amzn-errortype"]) == (404, "ResourceNotFoundException")
    assert "'nothing'" in unknown.json()["message"] and set(unknown.json()) == {"message"}
    async with service.keyless_client() as stranger:
        refused = await stranger.post(INVOKE.format(MODELS[CHAT]), json=body)
    assert (refused.status_code, refused.headers["x-amzn-errortype"]) == (401, "UnrecognizedClientException")
    nonsense = await client.post(INVOKE.format(MODELS[CHAT]), content=b"{")
    assert (nonsense.status_code, nonsense.headers["x-amzn-errortype"]) == (400, "ValidationException")


@pytest.mark.parametrize(
    "name", ["us.anthropic.cloud-model-1-v1:0", "anthropic.cloud-model-1-20260922-v1:0", "cloud-model-1", "cloud-model-1@20260922"]
)
async def test_names_of_clouds_are_those_of_the_gateway(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, name: str):
    service.apply('[models]\ncloud-model-1 = { targets = [{ provider = "first", model = "engine-model" }] }')
    engine.script = respond_with(GREETING)
    response = await client.post(INVOKE.format(name), json={"max_tokens": 9, "messages": HI})
    assert response.status_code == 200 and response.json()["model"] == "cloud-model-1"


async def test_betas_of_the_body_reach_the_host_beside_those_of_the_header(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    body = {"anthropic_beta": ["one-2026-01-01", "two-2026-01-01"], "max_tokens": 9, "messages": HI}
    await client.post(INVOKE.format(MODELS[ANTHROPIC]), json=body, headers={"anthropic-beta": "two-2026-01-01, three-2026-01-01"})
    assert engine.requests[-1].headers["anthropic-beta"] == "two-2026-01-01,three-2026-01-01,one-2026-01-01"
    wrong = await client.post(INVOKE.format(MODELS[ANTHROPIC]), json={**body, "anthropic_beta": "one"})
    assert wrong.status_code == 400 and "`anthropic_beta`" in wrong.json()["message"]


async def test_stream_that_breaks_off_ends_with_an_exception(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = break_midway(CALLS)
    response = await client.post(f"/model/{MODELS[CHAT]}/invoke-with-response-stream", json={"max_tokens": 100, "messages": HI})
    assert response.headers["content-type"] == "application/vnd.amazon.eventstream"
    *chunks, last = EventStreamDecoder().feed(response.content)
    events = [json.loads(base64.b64decode(json.loads(chunk.payload)["bytes"])) for chunk in chunks]
    assert events[0]["type"] == "message_start" and {chunk.headers[":event-type"] for chunk in chunks} == {"chunk"}
    assert last.headers[":message-type"] == "exception" and json.loads(last.payload)["message"]


async def test_record_is_one_of_messages(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    response = await client.post(INVOKE.format(MODELS[CHAT]), json={"max_tokens": 9, "messages": HI})
    record = await service.wait_for_record(response.headers["x-narthex-inference-id"])
    assert (record["route"], record["outcome"]) == ("anthropic_messages", "answered")


async def test_tokens_are_counted(service: Service, engine: ScriptedEngine):
    engine.script = respond_with(GREETING)
    async with service.client() as client:
        path = "/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict"
        counted = await client.post(path, json={"model": MODELS[ANTHROPIC], "anthropic_version": "vertex-2023-10-16", "messages": HI})
    assert counted.json() == {"input_tokens": 42}
