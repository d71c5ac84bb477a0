"""Laws of LMDeploy's adapter: its whole documented chat dialect, by version; and what its proxy tells with status 200."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.adapters.provider import InvalidOption
from providers.canonical.chat import ENGINE_FIELDS
from providers.canonical.errors import Overloaded, TimedOut, Unsupported, UpstreamError, UpstreamFailed, UpstreamNotFound, UpstreamRejected
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions
from providers.engines.lmdeploy.adapter import LMDeploy
from tests.laws.asking import everything
from tests.laws.bending import bent
from tests.laws.chats import STAMP, bounded

UNKNOWN = LMDeploy("gpu", {})
TODAY = LMDeploy("gpu", {"version": "0.18.0"})
PYTORCH = LMDeploy("gpu", {"backend": "pytorch"})
OLD = LMDeploy("gpu", {}, (0, 16, 0))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": False, "description": "d"}}
STRICT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
OTHER = {"type": "function", "function": {"name": "g"}}
NAMED_CHOICE = {"type": "function", "function": {"name": "f"}}

# As callers say it, and as LMDeploy documents it.
OUTPUTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"response_format": NAMED}, NAMED),
    ({"response_format": {"type": "json_object"}}, {"type": "json_object"}),
    ({"response_format": {"type": "regex_schema", "regex_schema": "call me [A-Za-z]{1,10}"}}, {"regex_schema": "call me [A-Za-z]{1,10}"}),
    ({"guided_json": SCHEMA}, STRICT),
    ({"guided_regex": "[a-z]+"}, {"regex_schema": "[a-z]+"}),
    ({"structured_outputs": {"regex": "a|b"}}, {"regex_schema": "a|b"}),
    ({"structured_outputs": {"json_object": True}}, {"type": "json_object"}),
]


@pytest.mark.parametrize(("engine", "how"), [(UNKNOWN, "validated"), (OLD, "validated"), (PYTORCH, "enforced"), (TODAY, "enforced")])
@pytest.mark.parametrize(("said", "format"), OUTPUTS, ids=range(len(OUTPUTS)))
def test_each_output_is_said_as_documented(engine: LMDeploy, how: str, said: dict[str, Any], format: dict[str, Any]) -> None:
    """TurboMind up to 0.16 may drop a constraint with 200: without a version known to be later, replies are looked at."""
    sent, dropped, guiding = bent(engine, {"model": "m", **said})
    assert guiding is not None
    written = {"type": "regex_schema", **format} if "regex_schema" in format else format
    assert (sent, dropped, guiding.enforcement) == ({"model": "m", "response_format": written}, [], how)


@pytest.mark.parametrize(
    ("engine", "how"), [(UNKNOWN, "validated"), (TODAY, "converted"), (LMDeploy("g", {"guided": "enforced"}), "converted")]
)
def test_a_choice_is_said_as_a_regex(engine: LMDeploy, how: str) -> None:
    sent, _, guiding = bent(engine, {"guided_choice": ["yes", "n.o"]})
    assert guiding is not None and guiding.enforcement == how
    assert sent["response_format"]["type"] == "regex_schema"
    pattern = re.compile(sent["response_format"]["regex_schema"])
    assert [bool(pattern.fullmatch(text)) for text in ("yes", "n.o", "nxo", "yesn.o")] == [True, True, False, False]


@pytest.mark.parametrize(
    "said",
    [{"guided_grammar": 'root ::= "a"'}, {"structural_tag": {"format": {}}}, {"response_format": {"type": "structural_tag", "format": {}}}],
    ids=["grammar", "tag", "tag in response_format"],
)
def test_grammars_and_structural_tags_are_refused_or_dropped_by_name(said: dict[str, Any]) -> None:
    field = next(iter(said))
    with pytest.raises(Unsupported) as refused:
        bent(TODAY, said)
    assert refused.value.param == field
    assert bent(TODAY, said, everything) == ({}, [field], None)


def test_its_completions_take_no_constraint() -> None:
    for said in (OUTPUTS[0][0], OUTPUTS[4][0]):
        field = next(iter(said))
        with pytest.raises(Unsupported) as refused:
            bent(TODAY, {"prompt": "p", **said}, dialect="openai_completions")
        assert refused.value.param == field
        assert bent(TODAY, {"prompt": "p", **said}, everything, "openai_completions") == ({"prompt": "p"}, [field], None)


# The documented fields of its chat that go as they are (docs 0.12 to 0.16: /shared/api/lmdeploy-api-and-proxy-server.txt).
CHAT: dict[str, Any] = {
    **{"temperature": 0.1, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "ignore_eos": True, "seed": 1, "stop": ["a"]},
    **{"skip_special_tokens": False, "spaces_between_special_tokens": False, "min_new_tokens": 3, "include_stop_str_in_output": True},
    **{"logprobs": True, "top_logprobs": 2, "max_tokens": 9, "max_completion_tokens": 8, "session_id": 7, "return_token_ids": True},
    **{"chat_template_kwargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "enable_thinking": True, "reasoning_effort": "low"},
    **{"tools": [TOOL, OTHER], "tool_choice": NAMED_CHOICE, "stream": True, "stream_options": {"include_usage": True}},
}
COMPLETIONS: dict[str, Any] = {
    **{field: CHAT[field] for field in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "ignore_eos", "seed", "stop")},
    **{field: CHAT[field] for field in ("skip_special_tokens", "spaces_between_special_tokens", "max_tokens", "max_completion_tokens")},
    **{field: CHAT[field] for field in ("session_id", "return_token_ids")},
}


@bounded
@given(st.lists(st.sampled_from(sorted(CHAT)), unique=True), st.sampled_from([UNKNOWN, TODAY, OLD, PYTORCH]))
def test_documented_fields_of_its_chat_go_as_they_came(fields: list[str], engine: LMDeploy) -> None:
    asked = {"model": "m", "x-unknown": [1], **{field: CHAT[field] for field in fields}}
    if "logprobs" not in fields:
        asked.pop("top_logprobs", None)
    assert bent(engine, asked) == (asked, [], None)


@bounded
@given(st.lists(st.sampled_from(sorted(COMPLETIONS)), unique=True), st.sampled_from([UNKNOWN, TODAY]))
def test_documented_fields_of_its_completions_go_as_they_came(fields: list[str], engine: LMDeploy) -> None:
    asked = {"model": "m", "prompt": "p", **{field: COMPLETIONS[field] for field in fields}}
    assert bent(engine, asked, dialect="openai_completions") == (asked, [], None)


# Of each field that it ignores: a value that asks for something, and one that asks for nothing.
IGNORED: list[tuple[str, Any, Any]] = [
    ("presence_penalty", 1.0, 0.0),
    ("frequency_penalty", 1.0, 0),
    ("n", 2, 1),
    ("logit_bias", {"5": 1}, {}),
    ("do_preprocess", False, True),
    ("stop_token_ids", [1], []),
    ("separate_reasoning", False, True),
    ("continue_final_message", True, False),
    ("lora_path", "l", None),
    ("tool_choice", "required", None),
    ("reasoning_effort", "xhigh", None),
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
    ("verbosity", "low", "medium"),
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
)


@pytest.mark.parametrize(("field", "asking", "idle"), IGNORED, ids=[each[0] for each in IGNORED])
def test_what_it_would_ignore_is_refused_by_name_and_reported_when_dropped(field: str, asking: Any, idle: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        bent(UNKNOWN, {"model": "m", field: asking})
    assert refused.value.param == field
    assert bent(UNKNOWN, {"model": "m", field: asking}, everything)[:2] == ({"model": "m"}, [field])
    for nothing_said in (idle, None):
        sent, dropped, _ = bent(UNKNOWN, {"model": "m", field: nothing_said})
        assert dropped == [] and all(value is None for key, value in sent.items() if key != "model")


@pytest.mark.parametrize("field", HINTS)
def test_hints_are_dropped_and_reported(field: str) -> None:
    assert bent(UNKNOWN, {"model": "m", field: "x"})[:2] == ({"model": "m"}, [field])


def test_one_call_at_a_time_is_refused_before_it_knew_it() -> None:
    with pytest.raises(Unsupported) as refused:
        bent(UNKNOWN, {"tools": [TOOL], "parallel_tool_calls": False})
    assert refused.value.param == "parallel_tool_calls"
    assert bent(UNKNOWN, {"tools": [TOOL], "parallel_tool_calls": False}, everything)[:2] == ({"tools": [TOOL]}, ["parallel_tool_calls"])
    assert bent(UNKNOWN, {"tools": [TOOL], "parallel_tool_calls": True})[:2] == ({"tools": [TOOL]}, [])


def test_every_engine_word_is_known_renamed_or_refused() -> None:
    assert CHAT.keys() | {each[0] for each in IGNORED} | set(HINTS) | LMDeploy.renamed_fields.keys() >= ENGINE_FIELDS


@pytest.mark.parametrize(
    "field", ["echo", "suffix", "logprobs", "n", "best_of", "logit_bias", "min_new_tokens", "include_stop_str_in_output"]
)
def test_what_its_completions_would_ignore_is_refused_by_name(field: str) -> None:
    value = {"echo": True, "suffix": "x", "logprobs": 0, "logit_bias": {"1": 1}, "include_stop_str_in_output": True}.get(field, 2)
    with pytest.raises(Unsupported) as refused:
        bent(TODAY, {"prompt": "p", field: value}, dialect="openai_completions")
    assert refused.value.param == field
    assert bent(TODAY, {"prompt": "p", field: value}, everything, "openai_completions")[:2] == ({"prompt": "p"}, [field])


@pytest.mark.parametrize(
    ("engine", "said", "sent"),
    [
        (UNKNOWN, {"top_k": -1}, {"top_k": 0}),
        (UNKNOWN, {"top_k": 0}, {"top_k": 0}),
        (UNKNOWN, {"min_tokens": 3}, {"min_new_tokens": 3}),
        (UNKNOWN, {"min_tokens": 0}, {}),
        (UNKNOWN, {"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}),
        (TODAY, {"reasoning_effort": "max"}, {"reasoning_effort": "max"}),
        (TODAY, {"n": 2, "parallel_tool_calls": False}, {"n": 2}),
        (TODAY, {"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [TOOL], "parallel_tool_calls": False}),
        (TODAY, {"tool_choice": "required", "tools": [TOOL, OTHER]}, {"tool_choice": "required", "tools": [TOOL, OTHER]}),
        (OLD, {"tool_choice": "required", "tools": [TOOL]}, {"tool_choice": NAMED_CHOICE, "tools": [TOOL]}),
        (OLD, {"tool_choice": "auto", "tools": [TOOL]}, {"tool_choice": "auto", "tools": [TOOL]}),
        (PYTORCH, {"logit_bias": {"5": 1}}, {"logit_bias": {"5": 1}}),
        (UNKNOWN, {"logprobs": False, "min_p": None, "tool_choice": None}, {}),
        (
            UNKNOWN,
            {"messages": [{"role": "assistant", "reasoning": "r", "content": "a"}]},
            {"messages": [{"role": "assistant", "reasoning_content": "r", "content": "a"}]},
        ),
    ],
    ids=range(14),
)
def test_what_it_calls_otherwise_is_said_in_its_words(engine: LMDeploy, said: dict[str, Any], sent: dict[str, Any]) -> None:
    assert bent(engine, said) == (sent, [], None)


@pytest.mark.parametrize("choice", [None, "required", NAMED_CHOICE], ids=str)
def test_calls_and_a_constraint_exclude_each_other_and_both_are_named(choice: Any) -> None:
    asked = {"tools": [TOOL], "response_format": NAMED, **({} if choice is None else {"tool_choice": choice})}
    with pytest.raises(Unsupported) as refused:
        bent(TODAY, asked)
    assert "`tools`" in refused.value.message and "`response_format`" in refused.value.message
    sent, dropped, guiding = bent(TODAY, asked, everything)
    assert (sent, dropped, guiding is not None) == ({"response_format": NAMED}, ["tools"], True)


def test_strict_tools_are_refused_for_it_does_not_hold_to_them() -> None:
    strict = {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]}
    with pytest.raises(Unsupported) as refused:
        bent(TODAY, strict)
    assert refused.value.param == "tools[0].function.strict"
    assert bent(TODAY, strict, everything)[1] == ["tools[0].function.strict"]


@pytest.mark.parametrize("kind", ["file", "input_audio"])
def test_a_part_that_it_does_not_know_is_refused_by_its_place(kind: str) -> None:
    asked: Any = {
        "messages": [{"role": "user", "content": [{"type": kind, kind: {"x": 1}}, {"type": "image_url", "image_url": {"url": "x"}}]}]
    }
    with pytest.raises(Unsupported) as refused:
        bent(TODAY, asked)
    assert refused.value.param == "messages[0].content[0]"
    assert bent(TODAY, asked, everything)[0]["messages"][0]["content"] == asked["messages"][0]["content"][1:]


def test_a_backend_that_it_does_not_have_is_a_bad_option() -> None:
    with pytest.raises(InvalidOption, match="backend"):
        LMDeploy("gpu", {"backend": "vllm"})


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, UpstreamRejected, 400),
        (409, UpstreamRejected, 409),
        (499, UpstreamFailed, 502),
        (503, Overloaded, 503),
        (404, UpstreamNotFound, 404),
    ],
)
def test_its_flat_errors_are_told_apart(status: int, kind: type, told: int) -> None:
    body = {"message": "what", "type": "t", "code": status, "param": "p", "object": "error"}
    error = UNKNOWN.read_error(status, {}, json.dumps(body).encode())
    assert (type(error), error.status, error.message) == (kind, told, "what")


# Told with status 200 (its proxy): its own errors, and what its nodes refused.
OF_PROXY: list[tuple[Any, type[UpstreamError], str]] = [
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
@pytest.mark.parametrize(("body", "kind", "said"), OF_PROXY, ids=range(len(OF_PROXY)))
def test_an_error_told_with_200_is_an_error(body: Any, kind: type[UpstreamError], said: str, in_string: bool, dialect: Any) -> None:
    raw = json.dumps(body).encode()
    raw = json.dumps(raw.decode() + "\n").encode() if in_string else raw
    for read in (lambda: dialect.edit_response(raw, STAMP), lambda: dialect.read_response(raw)):
        with pytest.raises(kind, match=said):
            read()


@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAICompletions()], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\n\n"], ids=["the proxy's own", "a node's"])
def test_a_bare_line_in_a_stream_is_an_error(ending: bytes, cut: int, begun: bool, dialect: Any) -> None:
    """Without `data:`, and its own without an empty line after; told as soon as it is there, for nothing comes after it."""
    choice = {"index": 0, "delta": {"content": "a"}} if dialect.name == "openai_chat" else {"index": 0, "text": "a"}
    start = b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n" if begun else b""
    wire = start + json.dumps(OF_PROXY[2][0]).encode() + ending
    blocks = [wire[at : at + cut] for at in range(0, len(wire), cut)]
    editor = dialect.stream_editor(STAMP)
    for block in blocks:
        editor.feed(block)
    assert type(editor.failure) is TimedOut
    reader = dialect.stream_reader()
    with pytest.raises(TimedOut, match="period of time"):
        for block in blocks:
            list(reader.feed(block))


@pytest.mark.parametrize("reason", ["abort", "error", "parse_error"])
@pytest.mark.parametrize("dialect", [OpenAIChat(), OpenAICompletions()], ids=lambda dialect: dialect.name)
def test_an_answer_that_was_given_up_is_none(reason: str, dialect: Any) -> None:
    inside = {"message": {"role": "assistant", "content": "half"}, "delta": {"content": "half"}, "text": "half"}
    raw = json.dumps({"id": "x", "choices": [{"index": 0, **inside, "finish_reason": reason}]}).encode()
    for read in (lambda: dialect.edit_response(raw, STAMP), lambda: dialect.read_response(raw)):
        with pytest.raises(UpstreamFailed, match=reason):
            read()
    editor = dialect.stream_editor(STAMP)
    editor.feed(b"data: " + raw + b"\n\n")
    assert type(editor.failure) is UpstreamFailed
