"""Tokens are counted by OpenAI where OpenAI answers, for callers of Messages and of Responses."""

import json

import httpx2
import pytest

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.dialect import ResponseMeta

COUNT = "anthropic_count_tokens"
META = ResponseMeta("id", "episode", "m", 0, True)


def test_openai_counts_a_request_of_messages():
    provider = build_provider("openai", "openai", {})
    operation = provider.host_operations[COUNT]
    assert str(provider.url("https://api.openai.com/v1", operation.name)) == "https://api.openai.com/v1/responses/input_tokens"
    messages = [{"role": "user", "content": "Hello!"}]
    tools = [{"name": "now", "input_schema": {"type": "object"}}]
    sent = Body.read(json.dumps({"model": "m", "system": "Be brief.", "messages": messages, "tools": tools}).encode())
    written, dropped = operation.write_request(sent, "gpt-6.1-sol", lambda _: False)
    body = json.loads(written.write())
    assert body.keys() == {"model", "input", "instructions", "tools"} and dropped == []
    assert (body["model"], body["instructions"], body["tools"][0]["name"]) == ("gpt-6.1-sol", "Be brief.", "now")


def test_count_of_openai_is_anthropics():
    operation = build_provider("openai", "openai", {}).host_operations[COUNT]
    raw = b'{"object": "response.input_tokens", "input_tokens": 11}'
    assert json.loads(operation.read_response(raw, httpx2.Headers(), META)) == {"input_tokens": 11}
    with pytest.raises(InvalidUpstreamResponse):
        operation.read_response(b"{}", httpx2.Headers(), META)


def test_other_servers_of_the_dialect_count_nothing():
    assert not build_provider("openai", "local", {}, "http://127.0.0.1:1/v1").host_operations
