"""Hosts that are specified in hosts.toml: specs are checked strictly; unsupported fields are refused by name, renamed, or reported."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import (
    Overloaded,
    QuotaExhausted,
    UnparsableModelOutput,
    Unsupported,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.catalogue import ADAPTERS, build_provider
from providers.hosted.host_specs import HOSTS, InvalidHostSpec, read_host_specs
from tests.support.field_handling import (
    FIELD_VALUES,
    HI,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    emulated_chat_fields,
    translate_body,
    translate_chat_fields,
)

VALID_SPEC = 'title = "x"\nbase_url = "https://x.test/v1"\ndialects = ["openai_chat"]\n'


# Hosts whose classes add no more than is tested below.
HOST_NAMES = ("together", "hyperbolic", "groq", "openrouter", "perplexity", "cerebras")


def build_adapter(name: str, **options: Any) -> Provider:
    return build_provider(name, name, options)


@pytest.mark.parametrize(
    "spec",
    [
        VALID_SPEC + "colour = 1",
        VALID_SPEC + "[x.rules]\nmost_stop = 4",
        VALID_SPEC + "[x.rules]\nmost_stops = 0",
        VALID_SPEC + '[x.rules]\ntool_names = "("',
        VALID_SPEC + "[x.rules]\nranges = { temperature = [2, 0] }",
        VALID_SPEC + 'takes = ["n"]\nrefuses = ["n"]',
        VALID_SPEC + 'rename = { n = "m" }\nrefuses = ["n"]',
        VALID_SPEC + 'guided = { json_schema = "perhaps" }',
        VALID_SPEC.replace("https", "http"),
        VALID_SPEC.replace("/v1", "/v1/"),
        VALID_SPEC.replace("openai_chat", "open_chat"),
        VALID_SPEC.replace('"openai_chat"', ""),
        VALID_SPEC.replace('"x"', '""'),
        "title = 1",
        "[",
    ],
)
def test_invalid_host_spec_is_refused(spec: str):
    with pytest.raises(InvalidHostSpec):
        read_host_specs(f"[x]\n{spec}".encode())


def test_host_spec_is_read_and_every_spec_is_an_adapter():
    assert read_host_specs(f"[x]\n{VALID_SPEC}".encode())["x"].title == "x"
    assert ADAPTERS.keys() > HOSTS.keys()
    assert all(ADAPTERS[name].name == name and ADAPTERS[name].default_base_url == spec.base_url for name, spec in HOSTS.items())


@pytest.mark.parametrize("name", HOST_NAMES)
def test_host_url_keeps_its_own_path_under_another_base_url(name: str):
    host, own = build_adapter(name), HOSTS[name].base_url
    path = own.split("/", 3)[3] if own.count("/") > 2 else ""
    expected_path = "/".join(part for part in (path, "chat/completions") if part)
    assert str(host.url(own, "openai_chat")) == f"{own}/chat/completions"
    assert str(host.url("http://127.0.0.1:9/some/prefix", "openai_chat")) == f"http://127.0.0.1:9/some/prefix/{expected_path}"
    assert str(host.url("http://127.0.0.1:9/proxied/v1/", "openai_chat")) == "http://127.0.0.1:9/proxied/v1/chat/completions"


_HINTS = {
    *("metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user", "prediction"),
    *("guided_decoding_backend", "verbosity"),
}
_SENT = {
    *("frequency_penalty", "logit_bias", "n", "parallel_tool_calls", "presence_penalty", "reasoning_effort", "response_format"),
    *("seed", "stop", "temperature", "tool_choice", "tools", "top_p", "logprobs", "top_logprobs"),
}
_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True}}}
# Engines' fields for schemas are written in OpenAI's form.
_CONSTRAINT_FIELDS: Mapping[str, Any] = dict.fromkeys(("guided_json", "structured_outputs", "json_schema"), _SCHEMA)


def expected_handling(name: str) -> Mapping[str, Any]:
    """Returns what is expected from the spec, not from what the adapter makes of it."""
    spec = HOSTS[name]
    limit_field = spec.rules.max_tokens
    return {
        **dict.fromkeys(FIELD_VALUES, "refused"),
        **dict.fromkeys(_HINTS, "hint"),
        **dict.fromkeys(_SENT, "sent"),
        "functions": {"tools": [TOOL]},
        **_CONSTRAINT_FIELDS,
        **{field: {limit_field: 7} if limit_field else "sent" for field in ("max_tokens", "max_completion_tokens")},
        **dict.fromkeys(spec.supported_fields & FIELD_VALUES.keys(), "sent"),
        **dict.fromkeys(spec.unsupported_fields & FIELD_VALUES.keys(), "refused"),
        **({"functions": "refused"} if "tools" in spec.unsupported_fields else {}),
        **({"seed": "hint"} if "seed" in spec.unsupported_fields else {}),
        **_HOST_SPECIFIC.get(name, {}),
    }


_HOST_SPECIFIC: Mapping[str, Mapping[str, Any]] = {
    "openrouter": {"reasoning_effort": {"reasoning": {"effort": "low"}}},
    "hyperbolic": {**dict.fromkeys((*_CONSTRAINT_FIELDS, "response_format"), "refused"), "reasoning_effort": "hint"},
}


@pytest.mark.parametrize("name", HOST_NAMES)
def test_every_field_is_sent_converted_refused_or_reported(name: str):
    host = build_adapter(name, **({"require_parameters": False} if name == "openrouter" else {}))
    # A field that another one needs may be refused already.
    prerequisites = {"top_logprobs": "logprobs", "tool_choice": "tools", "parallel_tool_calls": "tools"}
    assert_fields_are_handled(
        host,
        {
            field: handling
            for field, handling in expected_handling(name).items()
            if prerequisites.get(field) not in HOSTS[name].unsupported_fields
        },
    )


@pytest.mark.parametrize("name", HOST_NAMES)
def test_neutral_values_are_neither_refused_nor_reported(name: str):
    for field, value in NEUTRAL_FIELD_VALUES.items():
        assert translate_chat_fields(build_adapter(name), {field: value})[1] == []


def test_effort_that_perplexity_does_not_know_is_a_hint():
    assert translate_chat_fields(build_adapter("perplexity"), {"reasoning_effort": "none"})[1] == ["reasoning_effort"]


@pytest.mark.parametrize("name", ["groq", "cerebras"])
def test_more_stop_sequences_than_a_host_takes_are_left_to_the_gateway(name: str):
    fields = {"stop": list("abcde")}
    assert "stop" not in translate_chat_fields(build_adapter(name), fields)[0]
    assert emulated_chat_fields(build_adapter(name), fields) == ("stop",)
    with pytest.raises(Unsupported, match="at most 4 stop sequences, not 5"):  # it cuts no texts that have log probabilities beside them
        translate_chat_fields(build_adapter(name), {**fields, "include_stop_str_in_output": True})


@pytest.mark.parametrize(
    ("name", "fields", "param", "rule"),
    [
        ("groq", {"tools": [TOOL] * 129}, "tools", "at most 128 tools, not 129"),
        ("groq", {"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools[0].function.name", "names match"),
        ("groq", {"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools[0]", "functions that the caller runs"),
        ("groq", {"reasoning_format": "raw", "include_reasoning": True}, "reasoning_format", "together with `include_reasoning`"),
    ],
)
def test_violated_host_rule_is_named_and_its_field_may_be_dropped(name: str, fields: dict[str, Any], param: str, rule: str):
    with pytest.raises(Unsupported, match=rule) as refused:
        translate_chat_fields(build_adapter(name), fields)
    assert refused.value.param == param
    body, dropped = translate_chat_fields(build_adapter(name), fields, drop=True)
    assert dropped == [param] and not body.keys() & (fields.keys() - {"include_reasoning"})


@pytest.mark.parametrize("name", ["groq", "together", "cerebras", "perplexity", "hyperbolic"])
def test_developer_role_becomes_system(name: str):
    body, _ = translate_chat_fields(build_adapter(name), {"messages": [{"role": "developer", "content": "x"}, *HI]})
    assert body["messages"][0]["role"] == "system"


def test_assistant_message_sent_back_keeps_only_fields_the_host_knows():
    """The official client sends the message back with all these fields."""
    message = {"role": "assistant", "content": "x", "reasoning_content": "hm", "refusal": None, "annotations": [{"type": "url_citation"}]}
    body, dropped = translate_chat_fields(
        build_adapter("groq"), {"messages": [*HI, {**message, "audio": None, "function_call": None}, *HI]}
    )
    assert body["messages"][1] == {"role": "assistant", "content": "x", "reasoning": "hm"}
    assert dropped == ["messages[1].annotations"]
    with pytest.raises(Unsupported, match="refusal"):
        translate_chat_fields(build_adapter("groq"), {"messages": [*HI, {**message, "refusal": "no"}, *HI]})


@pytest.mark.parametrize(
    ("name", "strict", "how"),
    [("groq", True, "enforced"), ("groq", False, "validated"), ("groq", None, "validated"), ("together", True, "validated")],
)
def test_schema_is_validated_unless_the_host_or_operator_enforces_it(name: str, strict: bool | None, how: str):
    schema = {"name": "x", "schema": {"type": "object"}, **({} if strict is None else {"strict": strict})}
    fields = {"model": "m", "messages": HI, "response_format": {"type": "json_schema", "json_schema": schema}}
    constraint_plan = translate_body(build_adapter(name), "openai_chat", json.dumps(fields).encode()).constraint_plan
    assert constraint_plan is not None and constraint_plan.enforcement == how
    trusted_plan = translate_body(build_adapter(name, guided="enforced"), "openai_chat", json.dumps(fields).encode()).constraint_plan
    assert trusted_plan is not None and trusted_plan.enforcement == "enforced"


def test_hyperbolic_tools_and_response_format_are_enabled_by_options():
    on = build_adapter("hyperbolic", tools=True, response_format=True)
    fields = {"tools": [TOOL], "response_format": {"type": "json_object"}}
    assert translate_chat_fields(on, fields)[0].items() >= fields.items()
    for field, value in fields.items():
        with pytest.raises(Unsupported, match=field):
            translate_chat_fields(build_adapter("hyperbolic"), {field: value})
    with pytest.raises(InvalidOption, match="tools"):
        build_adapter("hyperbolic", tools="yes")


@pytest.mark.parametrize("name", ["perplexity", "hyperbolic"])
def test_tool_calls_are_refused_or_dropped_for_a_host_without_tools(name: str):
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "content": "noon"}
    tool_call_messages = [
        {"role": "assistant", "content": "Hm.", "tool_calls": [call]},
        result,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        result,
    ]
    conversation = [*HI, *tool_call_messages, *HI]
    older_result = {"role": "function", "name": "now", "content": "noon"}
    for messages, param in ((conversation, "messages[1].tool_calls"), ([*HI, older_result], "messages[1]")):
        with pytest.raises(Unsupported, match="does not support tools") as refused:
            translate_chat_fields(build_adapter(name), {"messages": messages})
        assert refused.value.param == param
    body, dropped = translate_chat_fields(build_adapter(name), {"messages": conversation}, drop=True)
    assert body["messages"] == [*HI, {"role": "assistant", "content": "Hm."}, *HI]
    assert dropped == ["messages[1].tool_calls", "messages[2]", "messages[3].tool_calls", "messages[4]"]
    without_calls = [*HI, {"role": "assistant", "content": "Hm.", "tool_calls": None}, *HI]
    assert [each["content"] for each in translate_chat_fields(build_adapter(name), {"messages": without_calls})[0]["messages"]] == [
        "Hello!",
        "Hm.",
        "Hello!",
    ]


def test_openrouter_requires_parameters_for_fields_beyond_the_common_ones():
    required = {"require_parameters": True}
    assert translate_chat_fields(build_adapter("openrouter"), {"seed": 3})[0]["provider"] == required
    open_to_callers = build_adapter("openrouter", accepts=["provider"])
    assert translate_chat_fields(open_to_callers, {"seed": 3, "provider": {"only": ["a"]}})[0]["provider"] == {**required, "only": ["a"]}
    fields = {"seed": 3, "provider": {"require_parameters": False}}
    assert translate_chat_fields(open_to_callers, fields)[0]["provider"] == {"require_parameters": False}
    assert "provider" not in translate_chat_fields(build_adapter("openrouter"), {"temperature": 0.5})[0]
    assert "provider" not in translate_chat_fields(build_adapter("openrouter", require_parameters=False), {"seed": 3})[0]
    with pytest.raises(InvalidOption):
        build_adapter("openrouter", require_parameters=1)


MODERATED = {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}
UPSTREAM_RATE_LIMITED = {
    "error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down", "provider_name": "X"}}
}


@pytest.mark.parametrize(
    ("name", "status", "body", "kind", "message", "code"),
    [
        (
            "groq",
            400,
            {"error": {"message": "no", "code": "tool_use_failed", "failed_generation": "{"}},
            UnparsableModelOutput,
            "no",
            "tool_use_failed",
        ),
        ("groq", 498, {"error": {"message": "full", "type": "capacity_exceeded"}}, Overloaded, "full", "capacity_exceeded"),
        ("groq", 404, {"error": {"message": "none", "code": "model_not_found"}}, UpstreamNotFound, "none", "model_not_found"),
        ("openrouter", 403, MODERATED, UpstreamRejected, "violence", None),
        ("openrouter", 429, UPSTREAM_RATE_LIMITED, Overloaded, "Provider returned error: slow down", None),
        ("openrouter", 402, {"error": {"code": 402, "message": "Insufficient credits"}}, QuotaExhausted, "Insufficient", None),
        (
            "perplexity",
            400,
            {"error": {"message": "long", "type": "too_many_prompt_tokens", "code": 400}},
            UpstreamRejected,
            "long",
            "too_many_prompt_tokens",
        ),
        ("together", 500, {"error": "a string"}, UpstreamFailed, "a string", None),
    ],
)
def test_host_error_is_classified_with_its_own_code_and_message(
    name: str, status: int, body: Any, kind: type[UpstreamError], message: str, code: str | None
):
    error = build_adapter(name).read_error(status, {}, json.dumps(body).encode())
    assert type(error) is kind and error.upstream_status == status and message in error.message and error.upstream_code == code
