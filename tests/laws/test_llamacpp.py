"""Laws of the adapters of llama.cpp's two servers: what each is told of every field, and how each kind of constraint is said."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.provider import InvalidOption, Provider
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
from tests.laws.asking import everything
from tests.laws.bending import bent
from tests.laws.engine_fields import ASKED, HI, SILENT, TOOL, check, sent

CPP = LlamaCpp("box", {})
LARK = LlamaCpp("box", {"llguidance": True})
PYTHON = LlamaCppPython("box", {})
CALLS = LlamaCppPython("box", {"calls": True})
BOTH: list[Provider] = [CPP, PYTHON]

OBJECT = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
OVER = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 7}}}
NAMED = {"type": "function", "function": {"name": "now"}}

_REFUSED = frozenset(
    {
        *("audio", "functions", "modalities", "verbosity", "web_search_options", "function_call", "top_a", "tfs_z", "length_penalty"),
        *("no_repeat_ngram_size", "stop_token_ids", "bad_words", "include_stop_str_in_output", "skip_special_tokens"),
        *("spaces_between_special_tokens", "truncate_prompt_tokens", "allowed_token_ids", "best_of", "use_beam_search", "chat_template"),
        *("mm_processor_kwargs", "vllm_xargs", "lora_path", "separate_reasoning", "enable_thinking", "guided_whitespace_pattern"),
        *("structural_tag", "parallel_tool_calls", "n"),
    }
)
_HINTS = frozenset(
    {
        *("metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
        *("priority", "cache_salt", "session_id", "guided_decoding_backend"),
    }
)
_GBNF = {"grammar": 'root ::= "a"'}
_SAID: Mapping[str, Mapping[str, Any]] = {
    "repetition_penalty": {"repeat_penalty": 1.5},
    "guided_regex": {"grammar": "root ::= [a-c]+"},
    "regex": {"grammar": "root ::= [a-c]+"},
    "guided_choice": {"grammar": 'root ::= "yes" | "no"'},
    "guided_grammar": _GBNF,
    "ebnf": _GBNF,
    "grammar": _GBNF,
}
_ANY = {"json_schema": {"type": "object"}}
_OF_CPP: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(_REFUSED, "refused"),
    **dict.fromkeys(_HINTS, "hint"),
    **_SAID,
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), _ANY),
    "min_tokens": "refused",
}
_IN_JSON = {"response_format": {"type": "json_object", "schema": {"type": "object"}}}
_OF_PYTHON: Mapping[str, Mapping[str, Any] | str] = {
    **_OF_CPP,
    **dict.fromkeys(("ignore_eos", "typical_p", "reasoning_effort", "chat_template_kwargs", "add_generation_prompt"), "refused"),
    **dict.fromkeys(("continue_final_message", "tools"), "refused"),
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), _IN_JSON),
    "max_completion_tokens": {"max_tokens": 7},
    "logprobs": {"logprobs": True, "top_logprobs": 1},
    "min_tokens": "sent",
}


@pytest.mark.parametrize("field", ASKED)
def test_every_field_is_said_or_refused_to_llamacpp(field: str) -> None:
    check(CPP, field, _OF_CPP.get(field, "sent"))


@pytest.mark.parametrize("field", [field for field in ASKED if field not in ("tool_choice", "parallel_tool_calls", "top_logprobs")])
def test_every_field_is_said_or_refused_to_llama_cpp_python(field: str) -> None:
    check(PYTHON, field, _OF_PYTHON.get(field, "sent"))


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_no_reason_to_refuse(engine: Provider, field: str) -> None:
    assert sent(engine, {field: SILENT[field]})[1] == []
    assert sent(engine, {field: None})[1] == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_a_schema_is_said_so_that_chat_and_completions_of_llamacpp_obey_it(dialect: str) -> None:
    told, dropped, guiding = bent(CPP, {"guided_json": OBJECT}, dialect=dialect)
    assert guiding is not None
    assert (told, dropped, guiding.enforcement) == ({"json_schema": OBJECT}, [], "enforced")


@pytest.mark.parametrize("shape", ["json_schema", "json_object"])
def test_a_flat_schema_does_not_become_an_empty_one(shape: str) -> None:
    """llama.cpp reads `schema` beside the type only with json_object, and a json_schema without json_schema is any object to it."""
    format: dict[str, Any] = {"type": shape, "schema": OBJECT} if shape == "json_object" else {"type": shape, shape: {"schema": OBJECT}}
    assert bent(CPP, {"response_format": format})[0] == {"json_schema": OBJECT}


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_what_neither_a_converter_nor_a_grammar_holds_is_looked_at(engine: Provider) -> None:
    guiding = bent(engine, {"guided_json": OVER})[2]
    assert guiding is not None
    assert guiding.enforcement == "validated"


def test_a_schema_beyond_the_converter_goes_as_a_grammar_where_one_can_say_it() -> None:
    one_of = {"type": ["string", "null"], "pattern": "^[0-9]{2}$"}
    for schema, how in (({"enum": [1, "a"], "type": "string"}, "converted"), (one_of, "validated")):
        told, _, guiding = bent(CPP, {"guided_json": schema})
        assert guiding is not None
        assert (guiding.enforcement, sorted(told)) == (how, ["grammar" if how == "converted" else "json_schema"])


def test_completions_of_llama_cpp_python_take_grammars_alone() -> None:
    told, _, guiding = bent(PYTHON, {"guided_json": OBJECT}, dialect="openai_completions")
    assert guiding is not None
    assert (sorted(told), guiding.enforcement) == (["grammar"], "converted")
    for said in ({"guided_json": OVER}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(Unsupported):
            bent(PYTHON, said, dialect="openai_completions")


def test_lark_goes_only_where_it_would_not_end_the_process() -> None:
    lark = 'start: "a"'
    for text in (lark, f"%llguidance {{}}\n{lark}"):
        assert bent(LARK, {"guided_grammar": text})[0] == {"grammar": f"%llguidance {{}}\n{lark}"}
        for engine in BOTH:
            with pytest.raises(Unsupported):
                bent(engine, {"guided_grammar": text})


OTHER: dict[str, Any] = {"type": "function", "function": {"name": "other", "parameters": {}}}


def test_a_named_tool_is_the_only_one_that_llamacpp_is_sent() -> None:
    """An object is `auto` to it, without a word."""
    told, _, _ = bent(CPP, {"tools": [TOOL, OTHER], "tool_choice": NAMED})
    assert (told["tools"], told["tool_choice"]) == ([TOOL], "required")


def test_allowed_tools_are_the_only_ones_that_llamacpp_is_sent() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
    told, _, _ = bent(CPP, {"tools": [TOOL, OTHER], "tool_choice": choice})
    assert (told["tools"], told["tool_choice"]) == ([TOOL], "auto")


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_llama_cpp_python_is_told_which_tool_to_call(choice: Any) -> None:
    tools = [TOOL] if choice == "required" else [TOOL, OTHER]
    told, _, _ = bent(PYTHON, {"tools": tools, "tool_choice": choice})
    assert (told["tools"], told["tool_choice"]) == ([TOOL], NAMED)


def test_llama_cpp_python_calls_of_its_own_accord_only_where_its_chat_format_does() -> None:
    for said in ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}):
        assert bent(CALLS, said)[0] == said
        with pytest.raises(Unsupported) as refused:
            bent(PYTHON, said)
        assert refused.value.param == "tools"
        assert bent(PYTHON, said, everything)[0] == {}
    with pytest.raises(Unsupported) as refused:
        bent(PYTHON, {"tools": [TOOL, OTHER], "tool_choice": "required"})
    assert refused.value.param == "tool_choice"


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_a_strict_tool_is_promised_only_where_its_whole_schema_is_obeyed(engine: Provider) -> None:
    for parameters, kept in ((OBJECT, True), (OVER, False)):
        tool = {"type": "function", "function": {"name": "now", "parameters": parameters, "strict": True}}
        said = {"tools": [tool], "tool_choice": NAMED}
        if kept:
            assert bent(engine, said)[0]["tools"] == [tool]
            continue
        with pytest.raises(Unsupported) as refused:
            bent(engine, said)
        assert refused.value.param == "tools[0].function.strict"
        assert bent(engine, said, everything)[1] == ["tools[0].function.strict"]


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_a_pattern_of_a_tool_never_goes_as_it_is_said(engine: Provider) -> None:
    """One with \\d ends llama-cpp-python's process."""
    for pattern, told in ((r"^\d$", "^[0-9]$"), ("^(?=a)$", None)):
        parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
        tool = {"type": "function", "function": {"name": "now", "parameters": parameters}}
        [sent_tool] = bent(engine, {"tools": [tool], "tool_choice": NAMED})[0]["tools"]
        assert sent_tool["function"]["parameters"]["properties"]["a"].get("pattern") == told


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_tools_and_a_constraint_exclude_each_other(engine: Provider) -> None:
    """llama.cpp makes no call then, even if one is required; beside a grammar it answers 400."""
    for words in ({"guided_json": OBJECT}, {"guided_choice": ["a"]}):
        with pytest.raises(Unsupported) as refused:
            bent(engine, {"tools": [TOOL], "tool_choice": NAMED, **words})
        assert refused.value.param == "tools"
        assert bent(engine, {"tools": [TOOL], "tool_choice": "none", **words})[1] == []


def test_llamacpp_tells_no_logprobs_in_a_stream_with_tools() -> None:
    asked = {"tools": [TOOL], "logprobs": True, "top_logprobs": 2}
    either = LlamaCpp("box", {"stream": "both"})
    assert bent(either, asked)[0] == asked
    for engine, said in ((CPP, asked), (either, {**asked, "stream": True})):
        with pytest.raises(Unsupported) as refused:
            bent(engine, said)
        assert refused.value.param == "logprobs"


def test_llamacpp_is_asked_for_streams_alone_and_for_usage_in_them() -> None:
    """It does not see in time that the caller of a whole answer has gone."""
    told, _ = sent(CPP, {})
    assert (told["stream"], told["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in sent(LlamaCpp("box", {"stream": "both"}), {})[0]


def test_of_several_answers_llamacpp_counts_one_so_that_no_more_are_asked_of_it() -> None:
    for said, field, dialect in (({"n": 2}, "n", "openai_chat"), ({"n": 2, "prompt": "a"}, "n", "openai_completions")):
        with pytest.raises(Unsupported, match="tokens of one alone") as refused:
            bent(CPP, said, dialect=dialect)
        assert refused.value.param == field
        assert bent(LlamaCpp("box", {"accepts": ["n"]}), said, dialect=dialect)[0] == said


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
def test_several_prompts_at_once_are_refused_and_not_to_be_gone_without(engine: Provider) -> None:
    """llama.cpp tells the tokens of one of them, llama-cpp-python answers 500."""
    for prompt in (["a", "b"], [[1], [2]]):
        with pytest.raises(Unsupported, match="Ask for each by itself") as refused:
            bent(engine, {"prompt": prompt}, everything, dialect="openai_completions")
        assert (refused.value.param, "x-narthex-drop" in refused.value.message) == ("prompt", False)
    for prompt in ("a", ["a"], [1, 2]):
        assert bent(engine, {"prompt": prompt}, dialect="openai_completions")[0] == {"prompt": prompt}


def test_a_schema_that_is_no_object_is_said_as_one_or_refused() -> None:
    """To llama.cpp `true` and `false` are no schema at all, to llama-cpp-python either is any object."""
    any_object: dict[str, Any] = {}
    ways: list[tuple[Provider, dict[str, Any], str]] = [
        (CPP, {"json_schema": any_object}, "enforced"),
        (PYTHON, {"response_format": {"type": "json_object", "schema": any_object}}, "validated"),
    ]
    for engine, told, how in ways:
        said, _, guiding = bent(engine, {"guided_json": True})
        assert guiding is not None
        assert (said, guiding.enforcement) == (told, how)
        with pytest.raises(Unsupported, match="no answer is valid") as refused:
            bent(engine, {"guided_json": False})
        assert refused.value.param == "guided_json"


def test_llama_cpp_python_gets_messages_as_it_reads_them() -> None:
    told, _ = sent(
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
    assert told["messages"][0] == {"role": "system", "content": "Be brief."}
    assert told["messages"][1:2] == HI
    assert "content" not in told["messages"][2]


def test_llama_cpp_python_is_asked_for_streams_alone_and_not_for_usage() -> None:
    told, _ = sent(PYTHON, {})
    assert told["stream"] is True
    assert "stream_options" not in told
    assert "stream" not in sent(LlamaCppPython("box", {"stream": "both"}), {})[0]


@pytest.mark.parametrize(
    ("engine", "message", "kind", "status"),
    [
        (CPP, "The model produced output that does not match the expected peg-native format", UnparsableModelOutput, 502),
        (CPP, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", UpstreamRejected, 400),
        (CPP, "Failed to parse tools: Unsupported tool type: {}", UpstreamRejected, 400),
        (CPP, "something else", UpstreamFailed, 502),
        (PYTHON, "1 validation error:\n  {'type': 'list_type'}", UpstreamRejected, 400),
        (PYTHON, "Tool choice 'nope' not found in tools.", UpstreamRejected, 400),
        (PYTHON, "could not broadcast input array from shape (3,) into shape (0,)", UpstreamRejected, 400),
        (PYTHON, "something else", UpstreamFailed, 502),
    ],
)
def test_a_500_is_the_callers_where_the_caller_did_it(engine: Provider, message: str, kind: type[Exception], status: int) -> None:
    error = engine.read_error(500, {}, json.dumps({"error": {"message": message, "code": 500}}).encode())
    assert (type(error), error.status) == (kind, status)
    assert error.counts_as_failure is (message == "something else")


def test_other_statuses_mean_what_they_mean_elsewhere() -> None:
    loading = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
    for engine in BOTH:
        assert type(engine.read_error(503, {}, loading)) is Overloaded
        assert type(engine.read_error(401, {}, b'{"detail":"Invalid API key"}')) is CredentialRefused


@pytest.mark.parametrize(
    ("kind", "options"), [(LlamaCpp, {"llguidance": "yes"}), (LlamaCppPython, {"calls": 1}), (LlamaCppPython, {"vision": "x"})]
)
def test_options_are_checked(kind: type[Provider], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        kind("box", options)


def test_images_go_to_llama_cpp_python_where_it_can_see() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    asked = {"messages": [{"role": "user", "content": [part]}]}
    assert bent(LlamaCppPython("box", {"vision": True}), asked)[0] == asked
    with pytest.raises(Unsupported) as refused:
        bent(PYTHON, asked)
    assert refused.value.param == "messages[0].content[0]"


@pytest.mark.parametrize("engine", BOTH, ids=["llamacpp", "python"])
@pytest.mark.parametrize("said", [{"tools": [TOOL]}, {"tools": []}, {}], ids=["another", "none", "unsaid"])
def test_a_call_of_a_tool_that_is_not_there_is_malformed(engine: Provider, said: dict[str, Any]) -> None:
    """Either engine would answer without one."""
    with pytest.raises(InvalidRequest) as refused:
        sent(engine, {**said, "tool_choice": {"type": "function", "function": {"name": "elsewhere"}}})
    assert refused.value.param == "tool_choice"


def test_why_a_stream_is_refused_llama_cpp_python_is_asked_with_one_token() -> None:
    raw = b'{"model":"m","messages":[],"stream":true,"max_tokens":900,"top_k":3}'
    asked = PYTHON.diagnostic_request(raw)
    assert asked is not None
    assert json.loads(asked) == {"model": "m", "messages": [], "stream": False, "max_tokens": 1, "top_k": 3}
    assert CPP.diagnostic_request(raw) is None
