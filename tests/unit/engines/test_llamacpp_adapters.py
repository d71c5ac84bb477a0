"""The adapters of llama.cpp's server and of llama-cpp-python: what each does with every field and every kind of constraint."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import (
    CredentialRefused,
    InvalidRequest,
    Overloaded,
    UnparsableModelOutput,
    Unsupported,
    UpstreamFailed,
    UpstreamRejected,
)
from providers.engines.llamacpp.adapter import LlamaCpp
from providers.engines.llamacpp_python.adapter import LlamaCppPython
from tests.support.adapted_body import adapt_body
from tests.support.case_tables import assert_every
from tests.support.field_handling import (
    FIELD_VALUES,
    FUNCTIONS_AS_TOOLS,
    HI,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    translate_chat_fields,
)
from tests.support.request_translation import drop_everything

CPP = LlamaCpp("box", {})
CPP_WITH_LLGUIDANCE = LlamaCpp("box", {"llguidance": True})
PYTHON = LlamaCppPython("box", {})
PYTHON_WITH_CALLS = LlamaCppPython("box", {"calls": True})
BOTH: list[Provider] = [CPP, PYTHON]

OBJECT = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
UNENFORCED_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 7}}}
NAMED = {"type": "function", "function": {"name": "now"}}

_REFUSED = frozenset(
    {
        *("audio", "modalities", "web_search_options", "function_call", "top_a", "tfs_z", "length_penalty"),
        *("no_repeat_ngram_size", "stop_token_ids", "bad_words", "include_stop_str_in_output", "skip_special_tokens"),
        *("spaces_between_special_tokens", "truncate_prompt_tokens", "allowed_token_ids", "best_of", "use_beam_search", "chat_template"),
        *("mm_processor_kwargs", "vllm_xargs", "lora_path", "separate_reasoning", "return_token_ids", "guided_whitespace_pattern"),
        *("structural_tag", "n"),
    }
)
_HINTS = frozenset(
    {
        *("metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
        *("priority", "cache_salt", "session_id", "guided_decoding_backend", "verbosity"),
    }
)
_GBNF = {"grammar": 'root ::= "a"'}
_TRANSLATED: Mapping[str, Mapping[str, Any]] = {
    "repetition_penalty": {"repeat_penalty": 1.5},
    "enable_thinking": {"chat_template_kwargs": {"enable_thinking": False}},
    "guided_regex": {"grammar": "root ::= [a-c]+"},
    "regex": {"grammar": "root ::= [a-c]+"},
    "guided_choice": {"grammar": 'root ::= "yes" | "no"'},
    "guided_grammar": _GBNF,
    "ebnf": _GBNF,
    "grammar": _GBNF,
}
_ANY_OBJECT = {"json_schema": {"type": "object"}}
_EXPECTED_OF_CPP: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(_REFUSED, "refused"),
    **dict.fromkeys(_HINTS, "hint"),
    **_TRANSLATED,
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), _ANY_OBJECT),
    **dict.fromkeys(("min_tokens", "min_new_tokens", "do_preprocess"), "refused"),
    "parallel_tool_calls": "emulated",
    "functions": FUNCTIONS_AS_TOOLS,
}
_JSON_OBJECT_FORMAT = {"response_format": {"type": "json_object", "schema": {"type": "object"}}}
_EXPECTED_OF_PYTHON: Mapping[str, Mapping[str, Any] | str] = {
    **_EXPECTED_OF_CPP,
    **dict.fromkeys(("ignore_eos", "typical_p", "chat_template_kwargs", "add_generation_prompt", "enable_thinking"), "refused"),
    "reasoning_effort": "hint",
    **dict.fromkeys(("continue_final_message", "tools", "functions"), "refused"),
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), _JSON_OBJECT_FORMAT),
    "max_completion_tokens": {"max_tokens": 7},
    "logprobs": {"logprobs": True, "top_logprobs": 1},
    "min_tokens": "sent",
    "min_new_tokens": {"min_tokens": 3},
}


def test_each_field_is_sent_translated_or_refused_for_llamacpp() -> None:
    assert_fields_are_handled(CPP, {field: _EXPECTED_OF_CPP.get(field, "sent") for field in FIELD_VALUES})


def test_each_field_is_sent_translated_or_refused_for_llama_cpp_python() -> None:
    tested_below = ("tool_choice", "parallel_tool_calls", "top_logprobs")
    assert_fields_are_handled(
        PYTHON, {field: _EXPECTED_OF_PYTHON.get(field, "sent") for field in FIELD_VALUES if field not in tested_below}
    )


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_neutral_or_null_field_is_accepted_silently(engine: Provider) -> None:
    def check(field: str) -> None:
        assert translate_chat_fields(engine, {field: NEUTRAL_FIELD_VALUES[field]})[1] == []
        assert translate_chat_fields(engine, {field: None})[1] == []

    assert_every(check, NEUTRAL_FIELD_VALUES)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_guided_json_becomes_json_schema_for_llamacpp_chat_and_completions(dialect: str) -> None:
    body, dropped, constraint_plan = adapt_body(CPP, {"guided_json": OBJECT}, dialect=dialect)
    assert constraint_plan is not None
    assert (body, dropped, constraint_plan.enforcement) == ({"json_schema": OBJECT}, [], "enforced")


@pytest.mark.parametrize("shape", ["json_schema", "json_object"])
def test_flat_and_nested_schemas_reach_llamacpp_as_the_same_json_schema(shape: str) -> None:
    """llama.cpp reads `schema` beside the type only with json_object; to it, a json_schema without `json_schema` is any object."""
    format: dict[str, Any] = {"type": shape, "schema": OBJECT} if shape == "json_object" else {"type": shape, shape: {"schema": OBJECT}}
    assert adapt_body(CPP, {"response_format": format})[0] == {"json_schema": OBJECT}


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_schema_that_neither_converter_nor_grammar_enforces_is_validated(engine: Provider) -> None:
    constraint_plan = adapt_body(engine, {"guided_json": UNENFORCED_SCHEMA})[2]
    assert constraint_plan is not None
    assert constraint_plan.enforcement == "validated"


def test_schema_beyond_the_converter_is_sent_as_a_grammar_where_possible() -> None:
    one_of = {"type": ["string", "null"], "pattern": "^[0-9]{2}$"}
    for schema, how in (({"enum": [1, "a"], "type": "string"}, "converted"), (one_of, "validated")):
        body, _, constraint_plan = adapt_body(CPP, {"guided_json": schema})
        assert constraint_plan is not None
        assert (constraint_plan.enforcement, sorted(body)) == (how, ["grammar" if how == "converted" else "json_schema"])


def test_llama_cpp_python_completions_take_constraints_only_as_grammars() -> None:
    body, _, constraint_plan = adapt_body(PYTHON, {"guided_json": OBJECT}, dialect="openai_completions")
    assert constraint_plan is not None
    assert (sorted(body), constraint_plan.enforcement) == (["grammar"], "converted")
    for constraint_fields in ({"guided_json": UNENFORCED_SCHEMA}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(Unsupported):
            adapt_body(PYTHON, constraint_fields, dialect="openai_completions")


def test_lark_grammar_is_sent_only_to_llamacpp_with_llguidance() -> None:
    lark = 'start: "a"'
    for text in (lark, f"%llguidance {{}}\n{lark}"):
        assert adapt_body(CPP_WITH_LLGUIDANCE, {"guided_grammar": text})[0] == {"grammar": f"%llguidance {{}}\n{lark}"}
        for engine in BOTH:
            with pytest.raises(Unsupported):
                adapt_body(engine, {"guided_grammar": text})


OTHER: dict[str, Any] = {"type": "function", "function": {"name": "other", "parameters": {}}}


def test_named_tool_choice_sends_llamacpp_only_that_tool_as_required() -> None:
    """llama.cpp silently reads an object as `auto`."""
    body, _, _ = adapt_body(CPP, {"tools": [TOOL, OTHER], "tool_choice": NAMED})
    assert (body["tools"], body["tool_choice"]) == ([TOOL], "required")


def test_allowed_tools_are_the_only_tools_sent_to_llamacpp() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    body, _, _ = adapt_body(CPP, {"tools": [TOOL, OTHER], "tool_choice": choice})
    assert (body["tools"], body["tool_choice"]) == ([TOOL], "auto")


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_forced_tool_choice_names_the_tool_for_llama_cpp_python(choice: Any) -> None:
    tools = [TOOL] if choice == "required" else [TOOL, OTHER]
    body, _, _ = adapt_body(PYTHON, {"tools": tools, "tool_choice": choice})
    assert (body["tools"], body["tool_choice"]) == ([TOOL], NAMED)


def test_llama_cpp_python_takes_automatic_tools_only_with_the_calls_option() -> None:
    for tool_fields in ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}):
        assert adapt_body(PYTHON_WITH_CALLS, tool_fields)[0] == tool_fields
        with pytest.raises(Unsupported) as refused:
            adapt_body(PYTHON, tool_fields)
        assert refused.value.param == "tools"
        assert adapt_body(PYTHON, tool_fields, drop_everything)[0] == {}
    with pytest.raises(Unsupported) as refused:
        adapt_body(PYTHON, {"tools": [TOOL, OTHER], "tool_choice": "required"})
    assert refused.value.param == "tool_choice"


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_strict_tool_is_accepted_only_if_its_whole_schema_is_enforced(engine: Provider) -> None:
    for parameters, is_enforced in ((OBJECT, True), (UNENFORCED_SCHEMA, False)):
        tool = {"type": "function", "function": {"name": "now", "parameters": parameters, "strict": True}}
        tool_fields = {"tools": [tool], "tool_choice": NAMED}
        if is_enforced:
            assert adapt_body(engine, tool_fields)[0]["tools"] == [tool]
            continue
        with pytest.raises(Unsupported) as refused:
            adapt_body(engine, tool_fields)
        assert refused.value.param == "tools[0].function.strict"
        assert adapt_body(engine, tool_fields, drop_everything)[1] == ["tools[0].function.strict"]


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_pattern_in_a_tool_schema_is_rewritten_or_removed(engine: Provider) -> None:
    """A pattern with \\d ends llama-cpp-python's process."""
    for pattern, expected in ((r"^\d$", "^[0-9]$"), ("^(?=a)$", None)):
        parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
        tool = {"type": "function", "function": {"name": "now", "parameters": parameters}}
        [sent_tool] = adapt_body(engine, {"tools": [tool], "tool_choice": NAMED})[0]["tools"]
        assert sent_tool["function"]["parameters"]["properties"]["a"].get("pattern") == expected


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_tools_and_a_constraint_are_refused_together(engine: Provider) -> None:
    """llama.cpp makes no call then, even if one is required; beside a grammar it answers 400."""
    for constraint in ({"guided_json": OBJECT}, {"guided_choice": ["a"]}):
        with pytest.raises(Unsupported) as refused:
            adapt_body(engine, {"tools": [TOOL], "tool_choice": NAMED, **constraint})
        assert refused.value.param == "tools"
        assert adapt_body(engine, {"tools": [TOOL], "tool_choice": "none", **constraint})[1] == []


def test_llamacpp_refuses_logprobs_in_a_stream_with_tools() -> None:
    request = {"tools": [TOOL], "logprobs": True, "top_logprobs": 2}
    either = LlamaCpp("box", {"stream": "both"})
    assert adapt_body(either, request)[0] == request
    for engine, engine_request in ((CPP, request), (either, {**request, "stream": True})):
        with pytest.raises(Unsupported) as refused:
            adapt_body(engine, engine_request)
        assert refused.value.param == "logprobs"


def test_llamacpp_requests_stream_with_usage_unless_both_modes_are_allowed() -> None:
    """The server does not notice in time without a stream that the caller has disconnected."""
    body, _ = translate_chat_fields(CPP, {})
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in translate_chat_fields(LlamaCpp("box", {"stream": "both"}), {})[0]


def test_llamacpp_refuses_n_above_one_unless_it_is_in_accepts() -> None:
    cases = (({"n": 2}, "n", "openai_chat"), ({"n": 2, "prompt": "a"}, "n", "openai_completions"), ({"n_cmpl": 2}, "n_cmpl", "openai_chat"))
    for request, field, dialect in cases:
        with pytest.raises(Unsupported, match="tokens of only one") as refused:
            adapt_body(CPP, request, dialect=dialect)
        assert refused.value.param == field
        assert adapt_body(LlamaCpp("box", {"accepts": [field]}), request, dialect=dialect)[0] == request


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_several_prompts_are_refused_and_cannot_be_dropped(engine: Provider) -> None:
    """llama.cpp counts the tokens of only one of them; llama-cpp-python answers 500."""
    for prompt in (["a", "b"], [[1], [2]]):
        with pytest.raises(Unsupported, match="Send a request for each") as refused:
            adapt_body(engine, {"prompt": prompt}, drop_everything, dialect="openai_completions")
        assert (refused.value.param, "x-narthex-drop" in refused.value.message) == ("prompt", False)
    for prompt in ("a", ["a"], [1, 2]):
        assert adapt_body(engine, {"prompt": prompt}, dialect="openai_completions")[0] == {"prompt": prompt}


def test_schema_true_becomes_any_object_and_schema_false_is_refused() -> None:
    """llama.cpp reads `true` and `false` as no schema at all, llama-cpp-python reads both as any object."""
    any_object: dict[str, Any] = {}
    cases: list[tuple[Provider, dict[str, Any], str]] = [
        (CPP, {"json_schema": any_object}, "enforced"),
        (PYTHON, {"response_format": {"type": "json_object", "schema": any_object}}, "validated"),
    ]
    for engine, expected, how in cases:
        body, _, constraint_plan = adapt_body(engine, {"guided_json": True})
        assert constraint_plan is not None
        assert (body, constraint_plan.enforcement) == (expected, how)
        with pytest.raises(Unsupported, match="no response is valid") as refused:
            adapt_body(engine, {"guided_json": False})
        assert refused.value.param == "guided_json"


def test_llama_cpp_python_messages_use_system_role_plain_text_and_no_null_content() -> None:
    body, _ = translate_chat_fields(
        PYTHON,
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
                *HI,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
            ]
        },
    )
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][1:2] == HI
    assert "content" not in body["messages"][2]


def test_llama_cpp_python_requests_stream_without_requesting_usage() -> None:
    body, _ = translate_chat_fields(PYTHON, {})
    assert body["stream"] is True
    assert "stream_options" not in body
    assert "stream" not in translate_chat_fields(LlamaCppPython("box", {"stream": "both"}), {})[0]


@pytest.mark.parametrize(
    ("engine", "message", "kind", "status"),
    [
        (CPP, "The model produced output that does not match the expected peg-native format", UnparsableModelOutput, 500),
        (CPP, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", UpstreamRejected, 400),
        (CPP, "Failed to parse tools: Unsupported tool type: {}", UpstreamRejected, 400),
        (CPP, "something else", UpstreamFailed, 500),
        (PYTHON, "1 validation error:\n  {'type': 'list_type'}", UpstreamRejected, 400),
        (PYTHON, "Tool choice 'nope' not found in tools.", UpstreamRejected, 400),
        (PYTHON, "could not broadcast input array from shape (3,) into shape (0,)", UpstreamRejected, 400),
        (PYTHON, "something else", UpstreamFailed, 500),
    ],
)
def test_500_error_is_classified_by_its_message(engine: Provider, message: str, kind: type[Exception], status: int) -> None:
    error = engine.read_error(500, {}, json.dumps({"error": {"message": message, "code": 500}}).encode())
    assert (type(error), error.status) == (kind, status)
    assert error.counts_as_failure is (message == "something else")


def test_503_is_overloaded_and_401_is_a_refused_credential() -> None:
    loading = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
    for engine in BOTH:
        assert type(engine.read_error(503, {}, loading)) is Overloaded
        assert type(engine.read_error(401, {}, b'{"detail":"Invalid API key"}')) is CredentialRefused


@pytest.mark.parametrize(
    ("kind", "options"), [(LlamaCpp, {"llguidance": "yes"}), (LlamaCppPython, {"calls": 1}), (LlamaCppPython, {"vision": "x"})]
)
def test_option_of_the_wrong_type_is_refused(kind: type[Provider], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        kind("box", options)


def test_images_are_sent_to_llama_cpp_python_only_with_the_vision_option() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    request = {"messages": [{"role": "user", "content": [part]}]}
    assert adapt_body(LlamaCppPython("box", {"vision": True}), request)[0] == request
    with pytest.raises(Unsupported) as refused:
        adapt_body(PYTHON, request)
    assert refused.value.param == "messages[0].content[0]"


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
@pytest.mark.parametrize("tool_fields", [{"tools": [TOOL]}, {"tools": []}, {}], ids=["another tool", "no tools", "no field"])
def test_tool_choice_of_an_undeclared_tool_is_an_invalid_request(engine: Provider, tool_fields: dict[str, Any]) -> None:
    """Both engines would respond without a call."""
    with pytest.raises(InvalidRequest) as refused:
        translate_chat_fields(engine, {**tool_fields, "tool_choice": {"type": "function", "function": {"name": "elsewhere"}}})
    assert refused.value.param == "tool_choice"


def test_llama_cpp_python_diagnostic_request_is_unstreamed_with_one_token() -> None:
    raw = b'{"model":"m","messages":[],"stream":true,"max_tokens":900,"top_k":3}'
    diagnostic = PYTHON.diagnostic_request(raw)
    assert diagnostic is not None
    assert json.loads(diagnostic) == {"model": "m", "messages": [], "stream": False, "max_tokens": 1, "top_k": 3}
    assert CPP.diagnostic_request(raw) is None
