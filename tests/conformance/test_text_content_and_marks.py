"""Lists of texts, functions without parameters and marks of a cache, as each host takes them, from every API of callers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.catalogue import build_provider
from providers.hosted.host_specs import HOSTS
from tests.conformance.field_table_requests import ENGINE_TARGETS, HOSTED_TARGETS, TableTarget
from tests.conformance.shapes import APIS, CHAT, MESSAGES, RESPONSES, SHAPES, bare_tool, body, user
from tests.support.request_translation import send_to

SHAPES_BY_NAME = {shape.name: shape for shape in SHAPES}
# The roles whose lists of texts these refuse; for Messages callers the roles in which a list can be.
STRINGS_ONLY = {
    **{"DeepSeek": {"system", "user", "assistant", "tool"}, "Groq": {"system", "assistant", "tool"}},
    **{"mini-sglang": {"system", "user", "assistant"}, "llama-cpp-python": {"system", "user", "assistant", "tool"}},
}
MARK = {"type": "ephemeral"}


def targets_by_title() -> Mapping[str, TableTarget]:
    return {target.title: target for target in (*ENGINE_TARGETS, *HOSTED_TARGETS)}


def send(target: TableTarget, api: str, fields: Mapping[str, Any], model: str | None = None) -> Any:
    provider = build_provider(target.adapter, target.adapter, target.options, None if target.is_hosted else "http://127.0.0.1:1")
    return send_to(provider.at_version(target.version), api, fields, model or target.model)


@pytest.mark.parametrize("title", STRINGS_ONLY)
@pytest.mark.parametrize("api", APIS)
def test_lists_of_texts_are_joined_for_targets_that_take_strings(title: str, api: str):
    target = targets_by_title()[title]
    provider = build_provider(target.adapter, "p", {"dialects": ["openai_chat"]}, "https://x.example/v1")
    sent = send_to(provider, api, SHAPES_BY_NAME["lists of texts"].bodies[api], target.model)
    messages = json.loads(sent.raw)["messages"]
    strings = [message["content"] for message in messages if message["role"] in STRINGS_ONLY[title]]
    assert strings and all(isinstance(each, str) for each in strings)
    assert strings[0] in ("ONE\nTWO", "ONETWO") and sent.dropped == []


def test_lists_with_an_image_stay_lists():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    content = [{"type": "text", "text": "?"}, image]
    sent = send(targets_by_title()["DeepSeek"], CHAT, body(CHAT, user(CHAT, content)), "deepseek-v4.1-flash")
    assert json.loads(sent.raw)["messages"][0]["content"] == content


@pytest.mark.parametrize("fields", [{}, {"parameters": None}])
@pytest.mark.parametrize("api", [CHAT, RESPONSES])
@pytest.mark.parametrize("host", [name for name, spec in HOSTS.items() if "tools" not in spec.unsupported_fields])
def test_function_without_parameters_has_the_empty_schema_in_every_hosts_chat(host: str, api: str, fields: dict[str, Any]):
    options = {"region": "us-east-1"} if host == "sagemaker" else {}
    provider = build_provider(host, host, {**options, "dialects": ["openai_chat"]}, "https://x.example/v1")
    sent = send_to(provider, api, body(api, user(api), tools=[bare_tool(api, fields)]), "m")
    function = json.loads(sent.raw)["tools"][0]["function"]
    assert function["parameters"] == {"type": "object", "properties": {}} and function["name"] == "weather"


def marked_messages() -> dict[str, Any]:
    def text(each: str) -> dict[str, Any]:
        return {"type": "text", "text": each, "cache_control": MARK}

    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain.", "cache_control": MARK}
    return {
        "max_tokens": 99,
        "system": [{"type": "text", "text": "ONE"}, text("TWO")],
        "tools": [{"name": "weather", "input_schema": {"type": "object"}, "cache_control": MARK}],
        "messages": [*user(MESSAGES, [text("Hi")]), {"role": "assistant", "content": [call]}, *user(MESSAGES, [result])],
    }


@pytest.mark.parametrize(
    ("host", "model"),
    [
        *(("openrouter", model) for model in ("anthropic/claude-sonnet-4.5", "google/gemini-2.5-pro", "qwen/qwen3.8-max")),
        ("alibaba", "qwen3.8-max"),
    ],
)
def test_marks_of_messages_callers_stand_in_the_texts_of_a_chat_that_reads_them(host: str, model: str):
    sent = send_to(build_provider(host, host, {}), MESSAGES, marked_messages(), model)
    system, question, _, result = json.loads(sent.raw)["messages"]
    assert system["content"] == [{"type": "text", "text": "ONE"}, {"type": "text", "text": "TWO", "cache_control": MARK}]
    assert question["content"] == [{"type": "text", "text": "Hi", "cache_control": MARK}]
    assert result["content"] == [{"type": "text", "text": "Rain.", "cache_control": MARK}] and result["role"] == "tool"
    assert sent.dropped == ["tools[0].cache_control"]


@pytest.mark.parametrize(
    "target", [each for each in HOSTED_TARGETS if each.title in ("Together", "Groq", "DeepSeek", "Moonshot", "OpenAI, GPT-4.1")], ids=str
)
def test_marks_of_messages_callers_are_reported_where_no_chat_reads_them(target: TableTarget):
    provider = build_provider(target.adapter, target.adapter, {"dialects": ["openai_chat"]})
    sent = send_to(provider, MESSAGES, marked_messages(), target.model)
    assert b"cache_control" not in sent.raw
    assert {"system[1].cache_control", "messages[0].content[0].cache_control", "tools[0].cache_control"} <= set(sent.dropped)


def test_mark_beside_the_messages_reaches_openrouter():
    fields = {**body(MESSAGES, user(MESSAGES)), "cache_control": MARK}
    sent = send_to(build_provider("openrouter", "o", {}), MESSAGES, fields, "anthropic/claude-sonnet-4.5")
    assert (json.loads(sent.raw)["cache_control"], sent.dropped) == (MARK, [])
    sent = send_to(build_provider("alibaba", "a", {}), MESSAGES, fields, "qwen3.8-max")
    assert b"cache_control" not in sent.raw and sent.dropped == ["cache_control"]


@pytest.mark.parametrize(
    ("host", "model", "where"),
    [
        *(("openrouter", "qwen/qwen3.8-max", "same"), ("alibaba", "qwen3.8-max", "same"), ("groq", "qwen/qwen3-32b", "dropped")),
        *(("anthropic", "claude-sonnet-4-5", "same"), ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "cachePoint")),
        *(("bedrock", "amazon.nova-pro-v1:0", "cachePoint"), ("bedrock", "meta.llama3-3-70b-instruct-v1:0", "dropped")),
    ],
)
def test_marks_of_chat_callers_are_kept_written_otherwise_or_reported(host: str, model: str, where: str):
    marked = [{"type": "text", "text": "Hello", "cache_control": MARK}]
    sent = send_to(
        build_provider(host, host, {"region": "us-east-1"} if host == "bedrock" else {}), CHAT, body(CHAT, user(CHAT, marked)), model
    )
    content = json.loads(sent.raw)["messages"][0]["content"]
    match where:
        case "same":
            assert content == marked and sent.dropped == []
        case "cachePoint":
            assert content == [{"text": "Hello"}, {"cachePoint": {"type": "default"}}] and sent.dropped == []
        case _:
            assert b"cache" not in sent.raw and sent.dropped == ["messages[0].content[0].cache_control"]
