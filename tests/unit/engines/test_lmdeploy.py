"""LMDeploy's adapter: its whole documented chat API, by version, and the errors that its proxy sends with status 200."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.adapters.options import InvalidOption
from providers.canonical.errors import Overloaded, TimedOut, Unsupported, UpstreamError, UpstreamFailed, UpstreamNotFound, UpstreamRejected
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.fields import ENGINE_FIELDS
from tests.support.adapted_body import adapt_body
from tests.support.case_tables import assert_every
from tests.support.field_handling import translate_body
from tests.support.request_translation import drop_everything
from tests.support.strategies.chat_strategies import META, bounded

UNKNOWN_VERSION = LMDeploy("gpu", {})
CURRENT_VERSION = LMDeploy("gpu", {"version": "0.18.0"})
PYTORCH = LMDeploy("gpu", {"backend": "pytorch"})
OLD_VERSION = LMDeploy("gpu", {}, (0, 16, 0))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
JSON_SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": False, "description": "d"}}
STRICT_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
OTHER = {"type": "function", "function": {"name": "g"}}
NAMED_CHOICE = {"type": "function", "function": {"name": "f"}}

# The caller's fields, and the response_format that LMDeploy documents.
CONSTRAINT_CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"response_format": JSON_SCHEMA_FORMAT}, JSON_SCHEMA_FORMAT),
    ({"response_format": {"type": "json_object"}}, {"type": "json_object"}),
    ({"response_format": {"type": "regex_schema", "regex_schema": "call me [A-Za-z]{1,10}"}}, {"regex_schema": "call me [A-Za-z]{1,10}"}),
    ({"guided_json": SCHEMA}, STRICT_FORMAT),
    ({"guided_regex": "[a-z]+"}, {"regex_schema": "[a-z]+"}),
    ({"structured_outputs": {"regex": "a|b"}}, {"regex_schema": "a|b"}),
    ({"structured_outputs": {"json_object": True}}, {"type": "json_object"}),
]


@pytest.mark.parametrize(
    ("engine", "how"), [(UNKNOWN_VERSION, "validated"), (OLD_VERSION, "validated"), (PYTORCH, "enforced"), (CURRENT_VERSION, "enforced")]
)
@pytest.mark.parametrize(("fields", "format"), CONSTRAINT_CASES, ids=range(len(CONSTRAINT_CASES)))
def test_constraint_is_written_as_lmdeploy_documents_it(engine: LMDeploy, how: str, fields: dict[str, Any], format: dict[str, Any]) -> None:
    """TurboMind up to 0.16 may ignore a constraint with 200: unless the version is known to be later, responses are validated."""
    sent, dropped, constraint_plan = adapt_body(engine, {"model": "m", **fields})
    assert constraint_plan is not None
    written = {"type": "regex_schema", **format} if "regex_schema" in format else format
    assert (sent, dropped, constraint_plan.enforcement) == ({"model": "m", "response_format": written}, [], how)


@pytest.mark.parametrize(
    ("engine", "how"),
    [(UNKNOWN_VERSION, "validated"), (CURRENT_VERSION, "converted"), (LMDeploy("g", {"guided": "enforced"}), "converted")],
)
def test_guided_choice_is_written_as_a_regex(engine: LMDeploy, how: str) -> None:
    sent, _, constraint_plan = adapt_body(engine, {"guided_choice": ["yes", "n.o"]})
    assert constraint_plan is not None and constraint_plan.enforcement == how
    assert sent["response_format"]["type"] == "regex_schema"
    pattern = re.compile(sent["response_format"]["regex_schema"])
    assert [bool(pattern.fullmatch(text)) for text in ("yes", "n.o", "nxo", "yesn.o")] == [True, True, False, False]


@pytest.mark.parametrize(
    "fields",
    [{"guided_grammar": 'root ::= "a"'}, {"structural_tag": {"format": {}}}, {"response_format": {"type": "structural_tag", "format": {}}}],
    ids=["grammar", "tag", "tag in response_format"],
)
def test_grammar_and_structural_tag_are_refused_or_dropped_by_name(fields: dict[str, Any]) -> None:
    field = next(iter(fields))
    with pytest.raises(Unsupported) as refused:
        adapt_body(CURRENT_VERSION, fields)
    assert refused.value.param == field
    assert adapt_body(CURRENT_VERSION, fields, drop_everything) == ({}, [field], None)


def test_constraint_on_completions_is_refused_or_dropped_by_name() -> None:
    for constraint_fields in (CONSTRAINT_CASES[0][0], CONSTRAINT_CASES[4][0]):
        field = next(iter(constraint_fields))
        with pytest.raises(Unsupported) as refused:
            adapt_body(CURRENT_VERSION, {"prompt": "p", **constraint_fields}, dialect="openai_completions")
        assert refused.value.param == field
        assert adapt_body(CURRENT_VERSION, {"prompt": "p", **constraint_fields}, drop_everything, "openai_completions") == (
            {"prompt": "p"},
            [field],
            None,
        )


# The documented chat fields that are sent unchanged (docs 0.12 to 0.16: /shared/api/lmdeploy-api-and-proxy-server.txt).
CHAT_FIELDS: dict[str, Any] = {
    **{"temperature": 0.1, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "ignore_eos": True, "seed": 1, "stop": ["a"]},
    **{"skip_special_tokens": False, "spaces_between_special_tokens": False, "min_new_tokens": 3, "include_stop_str_in_output": True},
    **{"logprobs": True, "top_logprobs": 2, "max_tokens": 9, "max_completion_tokens": 8, "session_id": 7, "return_token_ids": True},
    **{"chat_template_kwargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "enable_thinking": True, "reasoning_effort": "low"},
    **{"tools": [TOOL, OTHER], "tool_choice": NAMED_CHOICE, "stream": True, "stream_options": {"include_usage": True}},
}
COMPLETIONS_FIELDS: dict[str, Any] = {
    **{
        field: CHAT_FIELDS[field]
        for field in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "ignore_eos", "seed", "stop")
    },
    **{
        field: CHAT_FIELDS[field]
        for field in ("skip_special_tokens", "spaces_between_special_tokens", "max_tokens", "max_completion_tokens")
    },
    **{field: CHAT_FIELDS[field] for field in ("session_id", "return_token_ids")},
}


@bounded
@given(
    st.lists(st.sampled_from(sorted(CHAT_FIELDS)), unique=True), st.sampled_from([UNKNOWN_VERSION, CURRENT_VERSION, OLD_VERSION, PYTORCH])
)
def test_documented_chat_fields_are_sent_unchanged(fields: list[str], engine: LMDeploy) -> None:
    request = {"model": "m", "x-unknown": [1], **{field: CHAT_FIELDS[field] for field in fields}}
    if "logprobs" not in fields:
        request.pop("top_logprobs", None)
    assert adapt_body(engine, request) == (request, [], None)


@bounded
@given(st.lists(st.sampled_from(sorted(COMPLETIONS_FIELDS)), unique=True), st.sampled_from([UNKNOWN_VERSION, CURRENT_VERSION]))
def test_documented_completions_fields_are_sent_unchanged(fields: list[str], engine: LMDeploy) -> None:
    request = {"model": "m", "prompt": "p", **{field: COMPLETIONS_FIELDS[field] for field in fields}}
    assert adapt_body(engine, request, dialect="openai_completions") == (request, [], None)


# Fields that it ignores: a value that asks for something, and a neutral one.
IGNORED_FIELDS: list[tuple[str, Any, Any]] = [
    ("n", 2, 1),
    ("logit_bias", {"5": 1}, {}),
    ("do_preprocess", False, True),
    ("stop_token_ids", [1], []),
    ("separate_reasoning", False, True),
    ("continue_final_message", True, False),
    ("lora_path", "l", None),
    ("tool_choice", "required", None),
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
    ("add_generation_prompt", False, True),
    ("chat_template", "{{ x }}", None),
    ("vllm_xargs", {"a": 1}, None),
    ("guided_whitespace_pattern", "[ ]?", None),
]
HINTS = (
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "guided_decoding_backend",
    "priority",
    "cache_salt",
    # Its API accepts them and documents that they have no effect.
    "presence_penalty",
    "frequency_penalty",
)


def test_effort_that_it_does_not_know_is_a_hint() -> None:
    assert adapt_body(CURRENT_VERSION, {"reasoning_effort": "xhigh"})[1] == ["reasoning_effort"]


def test_ignored_field_is_refused_by_name_and_reported_when_dropped() -> None:
    def check(case: tuple[str, Any, Any]) -> None:
        field, value, neutral = case
        with pytest.raises(Unsupported) as refused:
            adapt_body(UNKNOWN_VERSION, {"model": "m", field: value})
        assert refused.value.param == field
        assert adapt_body(UNKNOWN_VERSION, {"model": "m", field: value}, drop_everything)[:2] == ({"model": "m"}, [field])
        for neutral_value in (neutral, None):
            sent, dropped, _ = adapt_body(UNKNOWN_VERSION, {"model": "m", field: neutral_value})
            assert dropped == [] and all(each is None for key, each in sent.items() if key != "model")

    assert_every(check, IGNORED_FIELDS)


def test_hint_fields_are_dropped_and_reported() -> None:
    assert {field: adapt_body(UNKNOWN_VERSION, {"model": "m", field: "x"})[:2] for field in HINTS} == {
        field: ({"model": "m"}, [field]) for field in HINTS
    }


def test_parallel_tool_calls_false_is_refused_for_an_unknown_version() -> None:
    with pytest.raises(Unsupported) as refused:
        adapt_body(UNKNOWN_VERSION, {"tools": [TOOL], "parallel_tool_calls": False})
    assert refused.value.param == "parallel_tool_calls"
    assert adapt_body(UNKNOWN_VERSION, {"tools": [TOOL], "parallel_tool_calls": False}, drop_everything)[:2] == (
        {"tools": [TOOL]},
        ["parallel_tool_calls"],
    )
    assert adapt_body(UNKNOWN_VERSION, {"tools": [TOOL], "parallel_tool_calls": True})[:2] == ({"tools": [TOOL]}, [])


def test_every_engine_field_is_known_renamed_ignored_or_a_hint() -> None:
    assert CHAT_FIELDS.keys() | {each[0] for each in IGNORED_FIELDS} | set(HINTS) | LMDeploy.renamed_fields.keys() >= ENGINE_FIELDS


@pytest.mark.parametrize("field", ["n", "best_of", "logit_bias", "min_new_tokens", "include_stop_str_in_output"])
def test_field_ignored_by_completions_is_refused_by_name(field: str) -> None:
    value = {"logit_bias": {"1": 1}, "include_stop_str_in_output": True}.get(field, 2)
    with pytest.raises(Unsupported) as refused:
        adapt_body(CURRENT_VERSION, {"prompt": "p", field: value}, dialect="openai_completions")
    assert refused.value.param == field
    assert adapt_body(CURRENT_VERSION, {"prompt": "p", field: value}, drop_everything, "openai_completions")[:2] == (
        {"prompt": "p"},
        [field],
    )


def test_fields_that_its_completions_accept_without_effect_are_dropped_and_reported() -> None:
    fields = {"echo": True, "suffix": "x", "logprobs": 1, "presence_penalty": 1.0}
    sent, dropped, _ = adapt_body(CURRENT_VERSION, {"prompt": "p", **fields}, dialect="openai_completions")
    assert sent == {"prompt": "p"} and set(dropped) == fields.keys()


# The requests that its reference shows, as its OpenAPI document writes them: docs/sources.md#lmdeploy.
CHAT_EXAMPLE: dict[str, Any] = {
    **{"chat_template_kwargs": {}, "do_preprocess": True, "enable_thinking": True, "frequency_penalty": 1.0, "ignore_eos": True},
    **{"include_stop_str_in_output": True, "logit_bias": {}, "logprobs": True, "max_completion_tokens": 1, "max_tokens": 1},
    **{"messages": "string", "min_new_tokens": 1, "min_p": 1.0, "mm_processor_kwargs": {}, "model": "string", "n": 1},
    **{"presence_penalty": 1.0, "reasoning_effort": "low", "repetition_penalty": 1.0, "return_token_ids": True, "seed": 1},
    "response_format": {
        "json_schema": {"description": "string", "name": "string", "schema": {}, "strict": True},
        **{"regex_schema": "string", "type": "text"},
    },
    **{"session_id": 1, "skip_special_tokens": True, "spaces_between_special_tokens": True, "stop": "string", "stream": True},
    **{"stream_options": {"include_usage": True}, "temperature": 1.0, "top_k": 1, "top_logprobs": 1, "top_p": 1.0, "user": "string"},
    "tool_choice": {"function": {"name": "string"}, "type": "string"},
    "tools": [{"function": {"description": "string", "name": "string", "parameters": {}}, "type": "string"}],
}
COMPLETIONS_EXAMPLE: dict[str, Any] = {
    **{"echo": True, "frequency_penalty": 1.0, "ignore_eos": True, "logprobs": 1, "max_completion_tokens": 1, "max_tokens": 1},
    **{"min_p": 1.0, "model": "string", "n": 1, "presence_penalty": 1.0, "prompt": "string", "repetition_penalty": 1.0},
    **{"return_token_ids": True, "seed": 1, "session_id": 1, "skip_special_tokens": True, "spaces_between_special_tokens": True},
    **{"stop": "string", "stream": True, "stream_options": {"include_usage": True}, "suffix": "string", "temperature": 1.0},
    **{"top_k": 1, "top_p": 1.0, "user": "string"},
}


@pytest.mark.parametrize("engine", [UNKNOWN_VERSION, CURRENT_VERSION, OLD_VERSION])
def test_its_references_examples_are_sent_and_what_it_ignores_is_reported(engine: LMDeploy) -> None:
    ignored = {"presence_penalty", "frequency_penalty", "user"}
    chat = translate_body(engine, "openai_chat", json.dumps(CHAT_EXAMPLE).encode())
    assert set(chat.dropped) == ignored and "frequency_penalty" not in json.loads(chat.raw)
    completions = translate_body(engine, "openai_completions", json.dumps(COMPLETIONS_EXAMPLE).encode())
    assert set(completions.dropped) == {*ignored, "echo", "suffix", "logprobs"}


@pytest.mark.parametrize(
    ("engine", "fields", "sent"),
    [
        (UNKNOWN_VERSION, {"top_k": -1}, {"top_k": 0}),
        (UNKNOWN_VERSION, {"top_k": 0}, {"top_k": 0}),
        (UNKNOWN_VERSION, {"min_tokens": 3}, {"min_new_tokens": 3}),
        (UNKNOWN_VERSION, {"min_tokens": 0}, {}),
        (UNKNOWN_VERSION, {"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        (CURRENT_VERSION, {"reasoning_effort": "max"}, {"reasoning_effort": "max"}),
        (CURRENT_VERSION, {"n": 2, "parallel_tool_calls": False}, {"n": 2}),
        (CURRENT_VERSION, {"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [TOOL], "parallel_tool_calls": False}),
        (CURRENT_VERSION, {"tool_choice": "required", "tools": [TOOL, OTHER]}, {"tool_choice": "required", "tools": [TOOL, OTHER]}),
        (OLD_VERSION, {"tool_choice": "required", "tools": [TOOL]}, {"tool_choice": NAMED_CHOICE, "tools": [TOOL]}),
        (OLD_VERSION, {"tool_choice": "auto", "tools": [TOOL]}, {"tool_choice": "auto", "tools": [TOOL]}),
        (PYTORCH, {"logit_bias": {"5": 1}}, {"logit_bias": {"5": 1}}),
        (UNKNOWN_VERSION, {"logprobs": False, "min_p": None, "tool_choice": None}, {}),
        (
            UNKNOWN_VERSION,
            {"messages": [{"role": "assistant", "reasoning": "r", "content": "a"}]},
            {"messages": [{"role": "assistant", "reasoning_content": "r", "content": "a"}]},
        ),
    ],
    ids=range(14),
)
def test_field_is_rewritten_for_the_version_and_backend(engine: LMDeploy, fields: dict[str, Any], sent: dict[str, Any]) -> None:
    assert adapt_body(engine, fields) == (sent, [], None)


@pytest.mark.parametrize("choice", [None, "required", NAMED_CHOICE], ids=str)
def test_tools_and_a_constraint_are_refused_together_naming_both(choice: Any) -> None:
    request = {"tools": [TOOL], "response_format": JSON_SCHEMA_FORMAT, **({} if choice is None else {"tool_choice": choice})}
    with pytest.raises(Unsupported) as refused:
        adapt_body(CURRENT_VERSION, request)
    assert "`tools`" in refused.value.message and "`response_format`" in refused.value.message
    sent, dropped, constraint_plan = adapt_body(CURRENT_VERSION, request, drop_everything)
    assert (sent, dropped, constraint_plan is not None) == ({"response_format": JSON_SCHEMA_FORMAT}, ["tools"], True)


def test_strict_tool_is_refused_because_lmdeploy_does_not_enforce_it() -> None:
    request = {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]}
    with pytest.raises(Unsupported) as refused:
        adapt_body(CURRENT_VERSION, request)
    assert refused.value.param == "tools[0].function.strict"
    assert adapt_body(CURRENT_VERSION, request, drop_everything)[1] == ["tools[0].function.strict"]


@pytest.mark.parametrize("kind", ["file", "input_audio"])
def test_unsupported_content_part_is_refused_with_its_path(kind: str) -> None:
    request: Any = {
        "messages": [{"role": "user", "content": [{"type": kind, kind: {"x": 1}}, {"type": "image_url", "image_url": {"url": "x"}}]}]
    }
    with pytest.raises(Unsupported) as refused:
        adapt_body(CURRENT_VERSION, request)
    assert refused.value.param == "messages[0].content[0]"
    assert adapt_body(CURRENT_VERSION, request, drop_everything)[0]["messages"][0]["content"] == request["messages"][0]["content"][1:]


def test_unknown_backend_option_is_refused() -> None:
    with pytest.raises(InvalidOption, match="backend"):
        LMDeploy("gpu", {"backend": "vllm"})


@pytest.mark.parametrize(
    ("status", "kind", "expected_status"),
    [
        (400, UpstreamRejected, 400),
        (409, UpstreamRejected, 409),
        (499, UpstreamFailed, 502),
        (503, Overloaded, 503),
        (404, UpstreamNotFound, 404),
    ],
)
def test_flat_error_body_is_classified_by_status(status: int, kind: type, expected_status: int) -> None:
    body = {"message": "what", "type": "t", "code": status, "param": "p", "object": "error"}
    error = UNKNOWN_VERSION.read_error(status, {}, json.dumps(body).encode())
    assert (type(error), error.status, error.message) == (kind, expected_status, "what")


# Sent with status 200 by its proxy: its own errors, and refusals of its nodes.
PROXY_ERRORS: list[tuple[Any, type[UpstreamError], str]] = [
    ({"error_code": 10400, "text": "The request model name does not exist in the model list."}, UpstreamNotFound, "does not exist"),
    ({"error_code": 10401, "text": "The service is unavailable now. May retry later."}, Overloaded, "unavailable"),
    ({"error_code": 10402, "text": "Failed to get response after a period of time"}, TimedOut, "period of time"),
    ({"error_code": 99, "text": "new"}, UpstreamFailed, "new"),
    ({"object": "error", "message": "top_k", "type": "t", "code": 400, "param": None}, UpstreamRejected, "top_k"),
    ({"object": "error", "message": "asleep", "type": "t", "code": 503, "param": None}, Overloaded, "asleep"),
    ({"detail": [{"loc": ["body", "n"], "msg": "not an integer", "type": "t"}]}, UpstreamRejected, "not an integer"),
]


@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAICompletions()], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("in_string", [False, True])
@pytest.mark.parametrize(("body", "kind", "message"), PROXY_ERRORS, ids=range(len(PROXY_ERRORS)))
def test_error_body_with_status_200_is_raised_as_an_error(
    body: Any, kind: type[UpstreamError], message: str, in_string: bool, dialect: Any
) -> None:
    raw = json.dumps(body).encode()
    raw = json.dumps(raw.decode() + "\n").encode() if in_string else raw
    for read in (lambda: dialect.edit_response(raw, META), lambda: dialect.read_response(raw)):
        with pytest.raises(kind, match=message):
            read()


@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAICompletions()], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\n\n"], ids=["the proxy's own", "a node's"])
def test_bare_error_line_in_a_stream_is_an_error(ending: bytes, cut: int, begun: bool, dialect: Any) -> None:
    """It has no `data:`, and the proxy's own no empty line after it. It is raised as soon as it arrives, because nothing follows."""
    choice = {"index": 0, "delta": {"content": "a"}} if dialect.name == "openai_chat" else {"index": 0, "text": "a"}
    start = b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n" if begun else b""
    wire = start + json.dumps(PROXY_ERRORS[2][0]).encode() + ending
    blocks = [wire[at : at + cut] for at in range(0, len(wire), cut)]
    editor = dialect.stream_editor(META)
    for block in blocks:
        editor.feed(block)
    assert type(editor.failure) is TimedOut
    reader = dialect.stream_reader()
    with pytest.raises(TimedOut, match="period of time"):
        for block in blocks:
            list(reader.feed(block))


@pytest.mark.parametrize("reason", ["abort", "error", "parse_error"])
@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAICompletions()], ids=lambda dialect: dialect.name)
def test_response_with_an_abort_or_error_finish_reason_is_a_failure(reason: str, dialect: Any) -> None:
    content_fields = {"message": {"role": "assistant", "content": "half"}, "delta": {"content": "half"}, "text": "half"}
    raw = json.dumps({"id": "x", "choices": [{"index": 0, **content_fields, "finish_reason": reason}]}).encode()
    for read in (lambda: dialect.edit_response(raw, META), lambda: dialect.read_response(raw)):
        with pytest.raises(UpstreamFailed, match=reason):
            read()
    editor = dialect.stream_editor(META)
    editor.feed(b"data: " + raw + b"\n\n")
    assert type(editor.failure) is UpstreamFailed
