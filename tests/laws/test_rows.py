"""Laws of hosts that are rows: a row is checked strictly, and what a host does not take is refused by name, renamed, or reported."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.provider import InvalidOption, Provider
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
from tests.laws.engine_fields import ASKED, HI, SILENT, TOOL, check, prepare, sent

GOOD = 'title = "x"\nbase_url = "https://x.test/v1"\ndialects = ["openai_chat"]\n'


# Those whose classes add no more than is said below.
PLAIN = ("together", "hyperbolic", "groq", "openrouter", "perplexity", "cerebras")


def adapter(name: str, **options: Any) -> Provider:
    return build_provider(name, name, options)


@pytest.mark.parametrize(
    "row",
    [
        GOOD + "colour = 1",
        GOOD + "[x.rules]\nmost_stop = 4",
        GOOD + "[x.rules]\nmost_stops = 0",
        GOOD + '[x.rules]\ntool_names = "("',
        GOOD + "[x.rules]\nranges = { temperature = [2, 0] }",
        GOOD + 'takes = ["n"]\nrefuses = ["n"]',
        GOOD + 'rename = { n = "m" }\nrefuses = ["n"]',
        GOOD + 'guided = { json_schema = "perhaps" }',
        GOOD.replace("https", "http"),
        GOOD.replace("/v1", "/v1/"),
        GOOD.replace("openai_chat", "open_chat"),
        GOOD.replace('"openai_chat"', ""),
        GOOD.replace('"x"', '""'),
        "title = 1",
        "[",
    ],
)
def test_a_row_that_cannot_be_meant_is_refused(row: str):
    with pytest.raises(InvalidHostSpec):
        read_host_specs(f"[x]\n{row}".encode())


def test_a_row_is_read_and_every_row_is_an_adapter():
    assert read_host_specs(f"[x]\n{GOOD}".encode())["x"].title == "x"
    assert ADAPTERS.keys() > HOSTS.keys()
    assert all(ADAPTERS[name].name == name and ADAPTERS[name].default_base_url == row.base_url for name, row in HOSTS.items())


@pytest.mark.parametrize("name", PLAIN)
def test_a_host_is_asked_below_its_own_path_wherever_it_is(name: str):
    host, own = adapter(name), HOSTS[name].base_url
    path = own.split("/", 3)[3] if own.count("/") > 2 else ""
    wanted = "/".join(part for part in (path, "chat/completions") if part)
    assert str(host.url(own, "openai_chat")) == f"{own}/chat/completions"
    assert str(host.url("http://127.0.0.1:9/some/prefix", "openai_chat")) == f"http://127.0.0.1:9/some/prefix/{wanted}"
    assert str(host.url("http://127.0.0.1:9/proxied/v1/", "openai_chat")) == "http://127.0.0.1:9/proxied/v1/chat/completions"


_HINTS = {
    *("metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user", "prediction"),
    "guided_decoding_backend",
}
_SENT = {
    *("frequency_penalty", "logit_bias", "n", "parallel_tool_calls", "presence_penalty", "reasoning_effort", "response_format"),
    *("seed", "stop", "temperature", "tool_choice", "tools", "top_p", "logprobs", "top_logprobs"),
}
_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True}}}
# Words of engines for schemas are said as OpenAI does.
_WORDS: Mapping[str, Any] = dict.fromkeys(("guided_json", "structured_outputs", "json_schema"), _SCHEMA)


def verdicts(name: str) -> Mapping[str, Any]:
    """By what rows say, but not as adapters make it of them."""
    row = HOSTS[name]
    most = row.rules.max_tokens
    return {
        **dict.fromkeys(ASKED, "refused"),
        **dict.fromkeys(_HINTS, "hint"),
        **dict.fromkeys(_SENT, "sent"),
        **_WORDS,
        **{field: {most: 7} if most else "sent" for field in ("max_tokens", "max_completion_tokens")},
        **dict.fromkeys(row.supported_fields & ASKED.keys(), "sent"),
        **dict.fromkeys(row.unsupported_fields & ASKED.keys(), "refused"),
        **_OWN.get(name, {}),
    }


_OWN: Mapping[str, Mapping[str, Any]] = {
    "openrouter": {"reasoning_effort": {"reasoning": {"effort": "low"}}},
    "hyperbolic": dict.fromkeys((*_WORDS, "response_format"), "refused"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_every_field_is_sent_or_said_otherwise_or_refused_or_reported(name: str):
    host = adapter(name, **({"require_parameters": False} if name == "openrouter" else {}))
    for field, verdict in verdicts(name).items():
        # What a field needs beside it may be refused already.
        beside = {"top_logprobs": "logprobs", "tool_choice": "tools", "parallel_tool_calls": "tools"}.get(field)
        if beside not in HOSTS[name].unsupported_fields:
            check(host, field, verdict)


@pytest.mark.parametrize("name", PLAIN)
def test_what_asks_for_nothing_is_refused_nowhere(name: str):
    for field, value in SILENT.items():
        assert sent(adapter(name), {field: value})[1] == []


@pytest.mark.parametrize(
    ("name", "fields", "param", "rule"),
    [
        ("groq", {"stop": list("abcde")}, "stop", "at most 4 stop sequences, and these are 5"),
        ("groq", {"tools": [TOOL] * 129}, "tools", "at most 128 tools, and these are 129"),
        ("groq", {"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools[0].function.name", "names match"),
        ("groq", {"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools[0]", "functions of the caller's"),
        ("groq", {"reasoning_format": "raw", "include_reasoning": True}, "reasoning_format", "together with `include_reasoning`"),
        ("perplexity", {"reasoning_effort": "none"}, "reasoning_effort", "it takes minimal, low, medium, high"),
        ("cerebras", {"stop": list("abcde")}, "stop", "at most 4"),
    ],
)
def test_a_rule_of_the_host_is_named_and_what_breaks_it_may_be_let_go(name: str, fields: dict[str, Any], param: str, rule: str):
    with pytest.raises(Unsupported, match=rule) as refused:
        sent(adapter(name), fields)
    assert refused.value.param == param
    body, dropped = sent(adapter(name), fields, drop=True)
    assert dropped == [param] and not body.keys() & (fields.keys() - {"include_reasoning"})


@pytest.mark.parametrize("name", ["groq", "together", "cerebras", "perplexity", "hyperbolic"])
def test_a_developer_is_the_system_there(name: str):
    body, _ = sent(adapter(name), {"messages": [{"role": "developer", "content": "x"}, *HI]})
    assert body["messages"][0]["role"] == "system"


def test_an_answer_that_is_given_back_has_only_what_the_host_knows():
    """As the official client gives it back."""
    answer = {"role": "assistant", "content": "x", "reasoning_content": "hm", "refusal": None, "annotations": [{"type": "url_citation"}]}
    body, dropped = sent(adapter("groq"), {"messages": [*HI, {**answer, "audio": None, "function_call": None}, *HI]})
    assert body["messages"][1] == {"role": "assistant", "content": "x", "reasoning": "hm"}
    assert dropped == ["messages[1].annotations"]
    with pytest.raises(Unsupported, match="refusal"):
        sent(adapter("groq"), {"messages": [*HI, {**answer, "refusal": "no"}, *HI]})


@pytest.mark.parametrize(
    ("name", "strict", "how"),
    [("groq", True, "enforced"), ("groq", False, "validated"), ("groq", None, "validated"), ("together", True, "validated")],
)
def test_a_schema_is_looked_at_where_it_is_not_known_to_hold(name: str, strict: bool | None, how: str):
    schema = {"name": "x", "schema": {"type": "object"}, **({} if strict is None else {"strict": strict})}
    fields = {"model": "m", "messages": HI, "response_format": {"type": "json_schema", "json_schema": schema}}
    guiding = prepare(adapter(name), "openai_chat", json.dumps(fields).encode()).constraint_plan
    assert guiding is not None and guiding.enforcement == how
    vouched = prepare(adapter(name, guided="enforced"), "openai_chat", json.dumps(fields).encode()).constraint_plan
    assert vouched is not None and vouched.enforcement == "enforced"


def test_what_hyperbolic_may_have_is_an_option():
    on = adapter("hyperbolic", tools=True, response_format=True)
    asked = {"tools": [TOOL], "response_format": {"type": "json_object"}}
    assert sent(on, asked)[0].items() >= asked.items()
    for field, value in asked.items():
        with pytest.raises(Unsupported, match=field):
            sent(adapter("hyperbolic"), {field: value})
    with pytest.raises(InvalidOption, match="tools"):
        adapter("hyperbolic", tools="yes")


@pytest.mark.parametrize("name", ["perplexity", "hyperbolic"])
def test_a_host_without_tools_is_told_of_no_calls(name: str):
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    made = [{"role": "assistant", "content": "Hm.", "tool_calls": [call]}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    told = [*HI, *made, {"role": "tool", "tool_call_id": "c", "content": "noon"}, *HI]
    for messages, param in ((told, "messages[1].tool_calls"), ([*HI, told[3]], "messages[1]")):
        with pytest.raises(Unsupported, match="calls no tools") as refused:
            sent(adapter(name), {"messages": messages})
        assert refused.value.param == param
    body, dropped = sent(adapter(name), {"messages": told}, drop=True)
    assert body["messages"] == [*HI, {"role": "assistant", "content": "Hm."}, *HI]
    assert dropped == ["messages[1].tool_calls", "messages[2].tool_calls", "messages[3]"]
    plain = [*HI, {"role": "assistant", "content": "Hm.", "tool_calls": None}, *HI]
    assert [each["content"] for each in sent(adapter(name), {"messages": plain})[0]["messages"]] == ["Hello!", "Hm.", "Hello!"]


def test_openrouter_asks_only_hosts_that_know_all_that_is_said():
    required = {"require_parameters": True}
    assert sent(adapter("openrouter"), {"seed": 3})[0]["provider"] == required
    assert sent(adapter("openrouter"), {"seed": 3, "provider": {"only": ["a"]}})[0]["provider"] == {**required, "only": ["a"]}
    said = {"seed": 3, "provider": {"require_parameters": False}}
    assert sent(adapter("openrouter"), said)[0]["provider"] == {"require_parameters": False}
    assert "provider" not in sent(adapter("openrouter"), {"temperature": 0.5})[0]
    assert "provider" not in sent(adapter("openrouter", require_parameters=False), {"seed": 3})[0]
    with pytest.raises(InvalidOption):
        adapter("openrouter", require_parameters=1)


MODERATED = {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"], "flagged_input": "x"}}}
ELSEWHERE = {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down", "provider_name": "X"}}}


@pytest.mark.parametrize(
    ("name", "status", "body", "kind", "words", "code"),
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
        ("openrouter", 429, ELSEWHERE, Overloaded, "Provider returned error: slow down", None),
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
def test_an_error_is_told_by_the_hosts_own_word(name: str, status: int, body: Any, kind: type[UpstreamError], words: str, code: str | None):
    error = adapter(name).read_error(status, {}, json.dumps(body).encode())
    assert type(error) is kind and error.upstream_status == status and words in error.message and error.upstream_code == code
