"""Laws of Ollama's adapter and of its own chat: what is asked, how it is said there, and what cannot be."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import structured_output
from providers.adapters.provider import InvalidOption
from providers.canonical.chat import ENGINE_FIELDS
from providers.canonical.errors import Overloaded, Unsupported, UpstreamNotFound, UpstreamRejected
from providers.catalogue import build_provider
from providers.dialects.ollama_chat.schema_pattern import to_schema_pattern
from tests.laws.chats import bounded
from tests.laws.engine_fields import ASKED, HI, SILENT, TOOL, check, prepare, sent

OLLAMA = build_provider("ollama", "ollama", {}, "http://127.0.0.1:11434")
SCHEMA = {"type": "object"}
VERDICTS: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(ASKED, "refused"),
    "tools": {"tools": [TOOL]},
    "functions": {"tools": [TOOL]},
    "max_tokens": {"options": {"num_predict": 7}},
    "max_completion_tokens": {"options": {"num_predict": 7}},
    "temperature": {"options": {"temperature": 0.5}},
    "top_p": {"options": {"top_p": 0.5}},
    "top_k": {"options": {"top_k": 5}},
    "min_p": {"options": {"min_p": 0.1}},
    "typical_p": {"options": {"typical_p": 0.9}},
    "repetition_penalty": {"options": {"repeat_penalty": 1.5}},
    "frequency_penalty": {"options": {"frequency_penalty": 0.5}},
    "presence_penalty": {"options": {"presence_penalty": 0.5}},
    "seed": {"options": {"seed": 3}},
    "stop": {"options": {"stop": ["END"]}},
    "logprobs": "sent",
    "top_logprobs": "sent",
    "reasoning_effort": {"think": "low"},
    "enable_thinking": {"think": False},
    "response_format": {"format": SCHEMA},
    "guided_json": {"format": SCHEMA},
    "structured_outputs": {"format": SCHEMA},
    "json_schema": {"format": SCHEMA},
    **{key: {"format": {"type": "string", "pattern": "^(([a-c])+)$"}} for key in ("guided_regex", "regex")},
    "guided_choice": {"format": {"type": "string", "enum": ["yes", "no"]}},
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "guided_decoding_backend"), "hint"
    ),
    "prompt_cache_retention": "hint",
    "prediction": "hint",
}


def test_no_word_of_engines_is_forgotten():
    assert ASKED.keys() >= ENGINE_FIELDS | structured_output.CONSTRAINT_FIELDS


@pytest.mark.parametrize("field", ASKED)
def test_every_field_is_said_in_its_words_or_refused_or_reported(field: str):
    check(OLLAMA, field, VERDICTS[field])


@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_not_refused(field: str):
    assert sent(OLLAMA, {field: SILENT[field]})[1] == []


def test_nothing_is_cut_off_in_silence_unless_the_operator_says_so():
    body, _ = sent(OLLAMA, {})
    assert body == {"model": "m", "messages": HI, "stream": False, "truncate": False, "shift": False}
    cutting = build_provider("ollama", "o", {"truncate": True, "num_ctx": 8192, "keep_alive": "10m"}, "http://127.0.0.1:1")
    body, _ = sent(cutting, {"seed": 1, "stream": True})
    assert (body["truncate"], body["shift"], body["stream"], body["keep_alive"]) == (True, True, True, "10m")
    assert body["options"] == {"seed": 1, "num_ctx": 8192}


@pytest.mark.parametrize("options", [{"num_ctx": 0}, {"num_ctx": "8k"}, {"keep_alive": True}, {"keep_alive": []}, {"truncate": "no"}])
def test_an_option_that_it_could_not_take_is_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        build_provider("ollama", "o", options)


@pytest.mark.parametrize(
    ("effort", "think", "hints"),
    [
        ("none", False, []),
        ("minimal", "low", ["reasoning_effort"]),
        ("high", "high", []),
        ("xhigh", "high", ["reasoning_effort"]),
        ("max", "max", []),
    ],
)
def test_efforts_are_levels_of_thinking(effort: str, think: Any, hints: list[str]):
    body, dropped = sent(OLLAMA, {"reasoning_effort": effort})
    assert (body["think"], dropped) == (think, hints)


@pytest.mark.parametrize(
    ("word", "said", "how", "trusted_how", "quoted"),
    [
        ("guided_json", SCHEMA, "validated", "enforced", False),
        ("response_format", {"type": "json_object"}, "validated", "enforced", False),
        ("guided_choice", ["yes", "no"], "validated", "converted", True),
        ("guided_regex", "[a-c]+", "validated", "validated", True),
    ],
)
def test_it_is_not_trusted_to_obey_unless_the_operator_says_so(word: str, said: Any, how: str, trusted_how: str, quoted: bool):
    raw = json.dumps({"model": "m", "messages": HI, word: said}).encode()
    trusted = build_provider("ollama", "o", {"guided": "enforced"}, "http://127.0.0.1:1")
    for provider, expected in ((OLLAMA, how), (trusted, trusted_how)):
        guiding = prepare(provider, "openai_chat", raw).constraint_plan
        assert guiding is not None and (guiding.enforcement, guiding.is_json_string, guiding.fields) == (expected, quoted, None)


def test_a_schema_of_anything_is_refused_for_its_format_is_an_object():
    with pytest.raises(Unsupported, match="object"):
        sent(OLLAMA, {"guided_json": True})


def test_a_constraint_that_was_let_go_is_reported_once_and_looked_at_by_nobody():
    raw = json.dumps({"model": "m", "messages": HI, "guided_grammar": 'root ::= "a"'}).encode()
    prepared = prepare(OLLAMA, "openai_chat", raw, drop=True)
    assert (prepared.dropped, prepared.constraint_plan) == (["guided_grammar"], None)


def test_tools_beside_a_constraint_are_refused():
    with pytest.raises(Unsupported) as refused:
        sent(OLLAMA, {"tools": [TOOL], "guided_json": SCHEMA})
    assert refused.value.param == "tools"
    assert sent(OLLAMA, {"tools": [TOOL], "tool_choice": "none", "guided_json": SCHEMA})[1] == []


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
def test_a_call_cannot_be_demanded(choice: Any):
    with pytest.raises(Unsupported) as refused:
        sent(OLLAMA, {"tools": [TOOL], "tool_choice": choice})
    assert refused.value.param == "tool_choice"


def test_tools_that_may_not_be_called_are_left_out():
    body, dropped = sent(OLLAMA, {"tools": [TOOL], "tool_choice": "none"})
    assert "tools" not in body and dropped == []


def test_a_strict_tool_is_refused_by_its_place_and_goes_without_if_let_go():
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    with pytest.raises(Unsupported) as refused:
        sent(OLLAMA, {"tools": [strict]})
    assert refused.value.param == "tools[0].function.strict"
    body, dropped = sent(OLLAMA, {"tools": [strict]}, drop=True)
    assert (body["tools"], dropped) == ([TOOL], ["tools[0].function.strict"])


def call(id: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def test_a_conversation_is_said_in_its_words():
    pixel = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    said = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "This"}, pixel, pixel, {"type": "text", "text": "and that?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [call("c1", '{"city": "Paris"}'), call("c2", "no")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12 °C"},
        {"role": "user", "content": "So?"},
    ]
    body, dropped = sent(OLLAMA, {"messages": said})
    assert dropped == []
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "This"},
        {"role": "user", "content": "and that?", "images": ["iVBORw==", "iVBORw=="]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Hm.",
            "tool_calls": [
                {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Paris"}}},
                {"id": "c2", "function": {"name": "weather", "arguments": {"_unparsed": "no"}}},
            ],
        },
        {"role": "tool", "content": "12 °C", "tool_call_id": "c1", "tool_name": "weather"},
        {"role": "user", "content": "So?"},
    ]


def test_callers_of_messages_and_responses_reach_it():
    asked = {
        "model": "m",
        "max_tokens": 3000,
        "system": "Be brief.",
        "messages": HI,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    prepared = prepare(OLLAMA, "anthropic_messages", json.dumps(asked).encode())
    body = json.loads(prepared.raw)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, *HI]
    assert (body["think"], body["options"], prepared.dropped) == (True, {"num_predict": 3000}, ["thinking.budget_tokens"])
    asked = {"model": "m", "input": "Hello!", "max_output_tokens": 9, "store": False, "text": {"format": {"type": "json_object"}}}
    body = json.loads(prepare(OLLAMA, "openai_responses", json.dumps(asked).encode()).raw)
    assert (body["messages"], body["options"], body["format"]) == (HI, {"num_predict": 9}, "json")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "user", "name": "Ann", "content": "Hi."}, "messages[0].name"),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}]},
            "messages[0].content[0]",
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,eA=="}}]},
            "messages[0].content[0]",
        ),
    ],
)
def test_what_it_cannot_read_of_a_message_is_refused_by_its_place(message: dict[str, Any], place: str):
    with pytest.raises(Unsupported) as refused:
        sent(OLLAMA, {"messages": [message]})
    assert refused.value.param == place


@pytest.mark.parametrize(
    "field", [field for field in ("n", "top_k", "min_p", "logit_bias", "repetition_penalty", "guided_regex", "verbosity")]
)
def test_raw_prompts_go_without_what_its_completions_lose(field: str):
    with pytest.raises(Unsupported) as refused:
        prepare(OLLAMA, "openai_completions", json.dumps({"model": "m", "prompt": "x", field: ASKED[field]}).encode())
    assert refused.value.param == field


def test_a_raw_prompt_goes_to_its_completions():
    prepared = prepare(OLLAMA, "openai_completions", b'{"model": "m", "prompt": "x", "seed": 1, "n": 1, "top_k": -1}')
    assert (prepared.dialect.name, json.loads(prepared.raw)) == ("openai_completions", {"model": "m", "prompt": "x", "seed": 1})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b'{"error":"registry.ollama.ai/library/x does not support tools"}', UpstreamRejected),
        (404, b'{"error":"model \'x\' not found"}', UpstreamNotFound),
        (503, b'{"error":"server busy, please try again.  maximum pending requests exceeded"}', Overloaded),
    ],
)
def test_its_errors_are_whose_fault_they_are(status: int, body: bytes, kind: type):
    error = OLLAMA.read_error(status, {}, body)
    assert type(error) is kind and error.message == json.loads(body)["error"]


atoms = st.sampled_from([r"\d", r"\w", r"\s", ".", "[a-f]", "[^x]", "é", r"\.", "-", "]", r"[\]^-]", "a", "/", r"\S"])
regexes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "+?"])).map(lambda each: f"(?:{each[0]}){each[1]}"),
    ),
    max_leaves=6,
)


@bounded
@given(regexes, st.lists(st.text('abfxZ09_ é-./]^"\\\n', max_size=5), min_size=10, max_size=40))
def test_what_a_regex_became_matches_the_same_texts_but_those_with_something_to_escape(regex: str, texts: list[str]):
    """And has no shorthand, which llama.cpp takes for a letter."""
    pattern = to_schema_pattern(regex)
    assert pattern.startswith("^(") and pattern.endswith(")$") and not re.search(r"\\[^x]", pattern)
    for text in texts:
        plain = json.dumps(text, ensure_ascii=False) == f'"{text}"'
        assert bool(re.fullmatch(pattern[1:-1], text)) == (plain and bool(re.fullmatch(regex, text, re.ASCII)))


@pytest.mark.parametrize("regex", ['"a"', r"\\", r"a\n", "(?=a)b", r"(a)\1", r"\bword\b", "(?i)a", ""])
def test_a_regex_that_it_cannot_say_is_refused(regex: str):
    with pytest.raises(Unsupported):
        to_schema_pattern(regex)


def test_a_choice_is_a_schema_of_its_options_and_is_answered_in_quotes():
    guiding = prepare(
        OLLAMA, "openai_chat", json.dumps({"model": "m", "messages": HI, "guided_choice": ['say "a"']}).encode()
    ).constraint_plan
    assert guiding is not None and guiding.is_json_string and guiding.output == structured_output.Choice(('say "a"',))
