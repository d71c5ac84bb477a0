"""A model that takes function tools at the Responses API only: requests of Chat go there, and are reported."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.hosted.azure.adapter import Azure
from providers.hosted.bedrock.adapter import Bedrock
from providers.hosted.openai.adapter import OpenAI
from tests.support.request_translation import drop_everything, send_to

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
CUSTOM = {
    "type": "custom",
    "custom": {"name": "apply_patch", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "s: X"}}},
}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 99}
MESSAGES_TOOL = {"name": "get_weather", "input_schema": SCHEMA}

OPENAI, AZURE = OpenAI("o", {}), Azure("az", {"resource": "r"})
DATED_AZURE = Azure("az", {"resource": "r", "api_version": "2025-04-01-preview"})
MANTLE = Bedrock("b", {"region": "us-east-1", "api": "mantle"})
ELSEWHERE = OpenAI("o", {"dialects": ["openai_responses", "openai_chat"]}, None, "http://10.0.0.5:8000")
CONVINCED = OpenAI("o", {"responses_for_tools": True}, None, "http://10.0.0.5:8000")
SWITCHED_OFF = OpenAI("o", {"responses_for_tools": False})
CHAT_ONLY = OpenAI("o", {"dialects": ["openai_chat"]})

# Fields of a Chat request -> the dialect in which gpt-5.6, gpt-6.2 (which refuses `none`) and gpt-5.2 get it.
REQUESTS: list[tuple[dict[str, Any], str, str, str]] = [
    ({}, "chat", "chat", "chat"),
    ({"reasoning_effort": "high"}, "chat", "chat", "chat"),
    ({"tools": [FUNCTION]}, "responses", "responses", "chat"),
    ({"tools": [FUNCTION], "reasoning_effort": "low"}, "responses", "responses", "chat"),
    ({"tools": [FUNCTION], "reasoning_effort": "none"}, "chat", "responses", "chat"),
    ({"tools": [CUSTOM]}, "chat", "chat", "chat"),
    ({"tools": [CUSTOM, FUNCTION]}, "responses", "responses", "chat"),
    ({"tools": []}, "chat", "chat", "chat"),
    ({"functions": [FUNCTION["function"]]}, "responses", "responses", "chat"),
]


@pytest.mark.parametrize("host", [OPENAI, AZURE, DATED_AZURE, CONVINCED, MANTLE], ids=lambda host: f"{host.name} {dict(host.options)}")
def test_function_tools_of_chat_callers_go_to_the_api_that_takes_them(host: Provider) -> None:
    prefix = "openai." if host is MANTLE else ""
    for fields, *expected in REQUESTS:
        for model, dialect in zip(("gpt-5.6-sol", "gpt-6.2-sol", "gpt-5.2"), expected, strict=True):
            sent = send_to(host, "openai_chat", {**CHAT, **fields}, prefix + model)
            assert sent.dialect.name == f"openai_{dialect}", (model, fields)
            field = next((name for name in ("tools", "functions") if name in fields), "")
            reported = (f"{field} (openai_responses)",) if dialect == "responses" else ()
            assert (() if sent.emulation is None else sent.emulation.fields) == reported, (model, fields)


@pytest.mark.parametrize("host", [ELSEWHERE, SWITCHED_OFF, CHAT_ONLY], ids=lambda host: str(dict(host.options)))
def test_they_stay_where_nothing_follows_from_names_or_the_operator_says_so(host: Provider) -> None:
    for fields, *_ in REQUESTS:
        assert send_to(host, "openai_chat", {**CHAT, **fields}, "gpt-5.6-sol").dialect.name == "openai_chat"


def test_a_target_that_is_pinned_to_chat_gets_chat() -> None:
    pinned = Target("o", "gpt-5.6-sol", dialect="openai_chat")
    assert send_to(OPENAI, "openai_chat", {**CHAT, "tools": [FUNCTION]}, "gpt-5.6-sol", target=pinned).dialect.name == "openai_chat"


def test_other_callers_with_tools_get_responses_even_where_chat_is_the_first_dialect() -> None:
    for host in (OPENAI, AZURE, DATED_AZURE, MANTLE):
        model = "openai.gpt-5.6-sol" if host is MANTLE else "gpt-5.6-sol"
        sent = send_to(host, "anthropic_messages", {**MESSAGES, "tools": [MESSAGES_TOOL]}, model)
        assert sent.dialect.name == "openai_responses", host.name
    assert send_to(DATED_AZURE, "anthropic_messages", MESSAGES, "gpt-5.6-sol").dialect.name == "openai_chat"


@pytest.mark.parametrize("model", ["gpt-5.5-pro", "gpt-5.3-codex", "o3-pro", "codex-mini-latest"])
def test_a_model_that_chat_does_not_have_gets_everything_at_responses(model: str) -> None:
    for host in (OPENAI, AZURE, DATED_AZURE):
        assert send_to(host, "openai_chat", CHAT, model).dialect.name == "openai_responses"
    assert send_to(SWITCHED_OFF, "openai_chat", CHAT, model).dialect.name == "openai_chat"


def test_what_is_sent_is_stateless_and_asks_for_encrypted_reasoning() -> None:
    fields = {**CHAT, "tools": [FUNCTION], "reasoning_effort": "high", "max_completion_tokens": 50, "user": "u", "prompt_cache_key": "k"}
    sent = json.loads(send_to(AZURE, "openai_chat", fields, "gpt-5.6-sol").raw)
    assert (sent["store"], sent["include"], sent["reasoning"]) == (False, ["reasoning.encrypted_content"], {"effort": "high"})
    assert (sent["max_output_tokens"], sent["user"], sent["prompt_cache_key"]) == (50, "u", "k")
    assert sent["tools"] == [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]


def test_fields_that_only_chat_has_are_kept_by_the_first_promise() -> None:
    fields = {**CHAT, "tools": [FUNCTION]}
    several = send_to(OPENAI, "openai_chat", {**fields, "n": 3}, "gpt-5.6-sol")
    assert len(several.parts) == 3 and several.dialect.name == "openai_responses" and several.emulation is not None
    assert several.emulation.fields == ("n", "tools (openai_responses)")
    stopped = send_to(OPENAI, "openai_chat", {**fields, "stop": ["END"]}, "gpt-5.6-sol")
    assert stopped.emulation is not None and stopped.emulation.stop == ("END",) and "stop" not in json.loads(stopped.raw)
    assert send_to(OPENAI, "openai_chat", {**fields, "seed": 3}, "gpt-5.6-sol").dropped == ["seed"]
    for field, value in (("logprobs", True), ("logit_bias", {"1": 5}), ("frequency_penalty", 0.5)):
        with pytest.raises(Unsupported) as refused:
            send_to(OPENAI, "openai_chat", {**fields, field: value}, "gpt-5.6-sol")
        assert refused.value.param == field, field
        dropped = send_to(OPENAI, "openai_chat", {**fields, field: value}, "gpt-5.6-sol", drop_everything)
        assert (dropped.dialect.name, dropped.dropped) == ("openai_responses", [field])
    # From 5.4 on a model that does not reason is refused tools on Chat, too; at Responses it takes sampling fields.
    assert json.loads(send_to(OPENAI, "openai_chat", {**fields, "temperature": 0.2}, "gpt-5.4").raw)["temperature"] == 0.2


@pytest.mark.parametrize("adapter", [OpenAI, Azure])
def test_the_option_is_true_or_false(adapter: type[Provider]) -> None:
    with pytest.raises(InvalidOption, match="responses_for_tools"):
        adapter("o", {"responses_for_tools": "yes"})
