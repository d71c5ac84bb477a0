"""SGLang's adapter: constraints in its documented fields, ignored fields refused by name, all other fields unchanged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from providers.canonical.errors import Overloaded, TimedOut, Unsupported, UpstreamFailed, UpstreamNotFound, UpstreamRejected
from providers.dialects.openai_chat import OpenAIChat
from providers.engines.sglang.adapter import SGLang
from providers.fields import ENGINE_FIELDS
from tests.support.adapted_body import adapt_body
from tests.support.case_tables import assert_every
from tests.support.request_translation import drop_everything
from tests.support.request_translation import translate_request as sent_for
from tests.support.strategies.chat_strategies import bounded

ENGINE = SGLang("gpu", {})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
GBNF = 'root ::= "a" | "b"'
TAG = {"format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}}
LEGACY_TAG = {"structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}], "triggers": ["<f"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
STRICT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}

# The caller's fields, SGLang's documented fields, and how the constraint is held.
OUTPUTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"response_format": NAMED}, {"response_format": NAMED}, "enforced"),
    ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}, "enforced"),
    ({"guided_json": SCHEMA}, {"response_format": STRICT}, "enforced"),
    ({"guided_json": json.dumps(SCHEMA)}, {"response_format": STRICT}, "enforced"),
    (
        {"guided_json": True},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}, "strict": True}}},
        "enforced",
    ),
    ({"structured_outputs": {"json": SCHEMA}}, {"response_format": STRICT}, "enforced"),
    ({"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json_object"}}, "enforced"),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"response_format": STRICT}, "enforced"),
    ({"guided_regex": "[a-z]+"}, {"regex": "[a-z]+"}, "enforced"),
    ({"structured_outputs": {"regex": "a|b"}}, {"regex": "a|b"}, "enforced"),
    ({"response_format": {"type": "regex_schema", "regex_schema": "a{2}"}}, {"regex": "a{2}"}, "enforced"),
    ({"regex": "[a-z]+"}, {"regex": "[a-z]+"}, "enforced"),
    ({"ebnf": GBNF}, {"ebnf": GBNF}, "enforced"),
    ({"guided_choice": ["yes", "no"]}, {"regex": "(yes|no)"}, "converted"),
    ({"guided_grammar": GBNF}, {"ebnf": GBNF}, "enforced"),
    ({"structural_tag": TAG}, {"response_format": {**TAG, "type": "structural_tag"}}, "enforced"),
    ({"structural_tag": json.dumps(TAG)}, {"response_format": {**TAG, "type": "structural_tag"}}, "enforced"),
    ({"structural_tag": LEGACY_TAG}, {"response_format": {**LEGACY_TAG, "type": "structural_tag"}}, "enforced"),
]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_each_constraint_is_written_in_sglang_fields(dialect: str) -> None:
    def check(case: tuple[dict[str, Any], dict[str, Any], str]) -> None:
        fields, written, how = case
        sent, dropped, constraint_plan = adapt_body(ENGINE, {"model": "m", **fields}, dialect=dialect)
        assert constraint_plan is not None
        assert (sent, dropped, constraint_plan.enforcement, constraint_plan.is_json_string) == ({"model": "m", **written}, [], how, False)

    assert_every(check, OUTPUTS)


@pytest.mark.parametrize(
    ("fields", "field"), [({"guided_grammar": 'start: "a"'}, "guided_grammar"), ({"guided_json": False}, "guided_json")]
)
def test_inexpressible_constraint_is_refused_or_dropped_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Unsupported, match=field):
        adapt_body(ENGINE, fields)
    assert adapt_body(ENGINE, fields, drop_everything) == ({}, [field], None)


# Fields that it ignores: a value that asks for something, and a neutral one if there is any.
IGNORED: list[tuple[str, Any, Any]] = [
    ("top_a", 0.2, 0),
    ("typical_p", 0.9, 1.0),
    ("tfs_z", 0.9, 1),
    ("length_penalty", 1.2, 1.0),
    ("no_repeat_ngram_size", 3, 0),
    ("bad_words", ["x"], []),
    ("truncate_prompt_tokens", 5, None),
    ("allowed_token_ids", [1], []),
    ("best_of", 3, 1),
    ("use_beam_search", True, False),
    ("spaces_between_special_tokens", False, True),
    ("add_generation_prompt", False, True),
    ("do_preprocess", False, True),
    ("return_token_ids", True, False),
    ("chat_template", "{{ x }}", None),
    ("mm_processor_kwargs", {"a": 1}, None),
    ("vllm_xargs", {"a": 1}, None),
    ("guided_whitespace_pattern", "[ ]?", None),
    ("suffix", "end", ""),
    ("modalities", ["text", "audio"], ["text"]),
    ("audio", {"voice": "x"}, None),
    ("web_search_options", {}, None),
    ("functions", [{"name": "f"}], []),
    ("function_call", {"name": "f"}, "auto"),
    ("thinking_token_budget", 5, None),
    ("top_logprobs", 3, 0),
]
HINTS = ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prediction", "guided_decoding_backend")


def test_field_sglang_ignores_is_refused_by_name_or_dropped_and_reported() -> None:
    def check(case: tuple[str, Any, Any]) -> None:
        field, value, neutral = case
        with pytest.raises(Unsupported) as refused:
            adapt_body(ENGINE, {"model": "m", field: value})
        assert refused.value.param == field
        assert adapt_body(ENGINE, {"model": "m", field: value}, drop_everything)[:2] == ({"model": "m"}, [field])
        for neutral_value in (neutral, None):
            sent, dropped, _ = adapt_body(ENGINE, {"model": "m", field: neutral_value})
            assert dropped == [] and sent == {"model": "m"}

    assert_every(check, IGNORED)


def test_hint_fields_are_dropped_and_reported() -> None:
    assert {field: adapt_body(ENGINE, {"model": "m", field: "x"})[:2] for field in HINTS} == {
        field: ({"model": "m"}, [field]) for field in HINTS
    }


# Chat fields that it reads and obeys (its protocol of 0.5.23).
SUPPORTED: dict[str, Any] = {
    **{"temperature": 0.1, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "min_tokens": 2, "repetition_penalty": 1.1, "seed": 7, "n": 2},
    **{"frequency_penalty": 0.5, "presence_penalty": -0.5, "logit_bias": {"5": 1.0}, "logprobs": True, "top_logprobs": 3, "stop": ["a"]},
    **{"stop_token_ids": [1], "stop_regex": "a+", "ignore_eos": True, "skip_special_tokens": False, "no_stop_trim": True},
    **{"max_tokens": 5, "max_completion_tokens": 6, "chat_template_kwargs": {"a": 1}, "continue_final_message": True},
    **{"separate_reasoning": False, "stream_reasoning": False, "reasoning_effort": "max", "lora_path": "l", "session_id": "s"},
    **{
        "cache_salt": "c",
        "priority": 3,
        "parallel_tool_calls": True,
        "tools": [TOOL],
        "tool_choice": "required",
        "custom_params": {"a": 1},
    },
}


@bounded
@given(st.lists(st.sampled_from(sorted(SUPPORTED)), unique=True))
def test_supported_and_unknown_fields_are_sent_unchanged(fields: list[str]) -> None:
    request = {"model": "m", "x-unknown": 1, **{field: SUPPORTED[field] for field in fields}}
    if "logprobs" not in fields:
        request.pop("top_logprobs", None)
    assert adapt_body(ENGINE, request) == (request, [], None)


def test_every_engine_field_is_supported_renamed_dropped_or_refused() -> None:
    handled = SUPPORTED.keys() | {each[0] for each in IGNORED} | set(HINTS) | SGLang.renamed_fields.keys() | {"enable_thinking"}
    assert handled >= ENGINE_FIELDS


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"include_stop_str_in_output": True}, {"no_stop_trim": True}),
        ({"min_new_tokens": 3}, {"min_tokens": 3}),
        ({"top_k": 0}, {"top_k": -1}),
        ({"top_k": -1}, {"top_k": -1}),
        ({"enable_thinking": False}, {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}}),
        (
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False, "x": 1}},
            {"chat_template_kwargs": {"thinking": True, "enable_thinking": False, "x": 1}},
        ),
        ({"logprobs": None, "n": None, "parallel_tool_calls": None, "presence_penalty": None}, {}),
        (
            {"messages": [{"role": "assistant", "reasoning": "r", "content": "a"}, {"role": "user", "content": "reasoning"}]},
            {"messages": [{"role": "assistant", "reasoning_content": "r", "content": "a"}, {"role": "user", "content": "reasoning"}]},
        ),
    ],
    ids=range(8),
)
def test_fields_sglang_names_differently_are_renamed(fields: dict[str, Any], sent: dict[str, Any]) -> None:
    assert adapt_body(ENGINE, fields) == (sent, [], None)


def test_completions_omit_nulls_and_refuse_chat_only_fields() -> None:
    request = {"prompt": "p", "max_tokens": 7, "top_k": None, "logprobs": 0, "echo": True, "stop": "x"}
    assert adapt_body(ENGINE, request, dialect="openai_completions")[0] == {
        "prompt": "p",
        "max_tokens": 7,
        "logprobs": 0,
        "echo": True,
        "stop": "x",
    }
    chat_only: dict[str, Any] = {"reasoning_effort": "low", "chat_template_kwargs": {}, "tools": [TOOL], "enable_thinking": True}
    for field, value in chat_only.items():
        with pytest.raises(Unsupported) as refused:
            adapt_body(ENGINE, {"prompt": "p", field: value}, dialect="openai_completions")
        assert refused.value.param == field
        assert adapt_body(ENGINE, {"prompt": "p", field: value}, drop_everything, "openai_completions")[:2] == ({"prompt": "p"}, [field])


@pytest.mark.parametrize("choice", [None, "auto", "required", {"type": "function", "function": {"name": "f"}}], ids=str)
@pytest.mark.parametrize("fields", [each[0] for each in OUTPUTS[:1] + OUTPUTS[8:9]], ids=["response_format", "guided_regex"])
def test_tools_beside_a_constraint_are_refused_naming_both_or_dropped(fields: dict[str, Any], choice: Any) -> None:
    request = {"tools": [TOOL], "parallel_tool_calls": False, **({} if choice is None else {"tool_choice": choice}), **fields}
    with pytest.raises(Unsupported) as refused:
        adapt_body(ENGINE, request)
    assert "`tools`" in refused.value.message and f"`{next(iter(fields))}`" in refused.value.message
    assert ("`tool_choice`" in refused.value.message) == (choice not in (None, "auto"))
    sent, dropped, constraint_plan = adapt_body(ENGINE, request, drop_everything)
    assert (sent.keys(), dropped, constraint_plan is not None) == (
        {"response_format"} if "response_format" in fields else {"regex"},
        ["tools"],
        True,
    )


def test_tool_choice_none_is_allowed_beside_a_constraint() -> None:
    request = {"tools": [TOOL], "tool_choice": "none", "response_format": NAMED}
    assert adapt_body(ENGINE, request)[0] == request
    assert adapt_body(ENGINE, {"tools": [], "response_format": NAMED})[1] == []


def test_strict_tools_are_sent_unchanged() -> None:
    strict = {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]}
    assert adapt_body(ENGINE, strict)[:2] == (strict, [])


def test_file_part_is_refused_by_its_path_or_dropped() -> None:
    text, file = {"type": "text", "text": '"file"'}, {"type": "file", "file": {"file_data": "x"}}
    request = {"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": [text, file]}]}
    with pytest.raises(Unsupported) as refused:
        adapt_body(ENGINE, request)
    assert refused.value.param == "messages[1].content[1]"
    sent, dropped, _ = adapt_body(ENGINE, request, drop_everything)
    assert (sent["messages"][1]["content"], dropped) == ([text], ["messages[1].content[1]"])


def test_request_carries_the_rid_that_abort_requests_use() -> None:
    request = OpenAIChat().parse_request(b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}')
    assert "rid" in json.loads(sent_for(request, ENGINE, Target("gpu", "theirs")).raw)
    for base in ("http://h:1", "http://h:1/v1", "http://h:1/v1/"):
        abort = ENGINE.abort_request(base, "abc")
        assert abort is not None
        assert (str(abort[0]), json.loads(abort[1])) == ("http://h:1/abort_request", {"rid": "abc"})


@pytest.mark.parametrize(
    ("status", "body", "kind", "expected_status"),
    [
        (503, {"object": "error", "message": "The request queue is full.", "type": "x", "param": None, "code": 503}, Overloaded, 503),
        (400, {"object": "error", "message": "bad", "type": "BadRequest", "param": "top_k", "code": 400}, UpstreamRejected, 400),
        (404, {"object": "error", "message": "no", "type": "NotFound", "param": None, "code": 404}, UpstreamNotFound, 404),
        (408, {"error": {"type": "Request Timeout", "code": "queue_timeout", "message": "waited"}}, Overloaded, 503),
        (429, {"error": {"type": "Too Many Requests", "code": "queue_full", "message": "full"}}, Overloaded, 429),
        (503, {"error": {"type": "Service Unavailable", "code": "no_available_workers", "message": "none"}}, Overloaded, 503),
        (502, {"error": {"type": "Bad Gateway", "code": "worker_error", "message": "worker"}}, UpstreamFailed, 502),
        (504, {"error": {"type": "Gateway Timeout", "code": "request_timeout", "message": "slow"}}, TimedOut, 504),
    ],
    ids=lambda value: str(value)[:20],
)
def test_sglang_and_router_errors_map_to_the_matching_error(status: int, body: dict[str, Any], kind: type, expected_status: int) -> None:
    error = ENGINE.read_error(status, {"x-smg-error-code": "x", "retry-after": "2"}, json.dumps(body).encode())
    assert (type(error), error.status) == (kind, expected_status)
    assert error.message == (body["message"] if "message" in body else body["error"]["message"])
    assert error.retry_elsewhere == (kind is not UpstreamRejected)
    if kind is Overloaded:
        assert (error.counts_as_failure, error.retry_after_s) == (False, 2)


def test_field_in_the_accepts_option_is_sent() -> None:
    engine = SGLang("gpu", {"accepts": ["mm_processor_kwargs", "top_logprobs"]})
    request = {"mm_processor_kwargs": {"a": 1}, "top_logprobs": 2}
    assert adapt_body(engine, request)[:2] == (request, [])
