"""Laws of TGI's adapter: OpenAI's words become its own, and what it has none for never reaches it in silence."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.canonical.errors import OperationNotSupported, Overloaded, Unsupported, UpstreamFailed, UpstreamRejected
from providers.catalogue import build_provider
from tests.laws.engine_fields import ASKED, HI, SILENT, TOOL, check, prepare, sent

TGI = build_provider("tgi", "tgi", {}, "http://127.0.0.1:1")
SCHEMA = {"type": "object"}
VERDICTS: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(ASKED, "refused"),
    **dict.fromkeys(("frequency_penalty", "logprobs", "max_tokens", "seed", "temperature", "tools", "tool_choice"), "sent"),
    **dict.fromkeys(("top_logprobs", "top_p"), "sent"),
    "max_completion_tokens": {"max_tokens": 7},
    "stop": {"stop": ["END"]},
    "repetition_penalty": {"presence_penalty": -0.5},
    "parallel_tool_calls": "spared",  # it makes one call at most
    "response_format": {"response_format": {"type": "json_schema", "value": {"name": "x", "schema": SCHEMA}}},
    "guided_json": {"response_format": {"type": "json_schema", "value": {"schema": SCHEMA}}},
    "structured_outputs": {"response_format": {"type": "json_schema", "value": {"schema": SCHEMA}}},
    "json_schema": {"response_format": {"type": "json_schema", "value": {"schema": SCHEMA}}},
    "regex": {"response_format": {"type": "regex", "value": "[a-c]+"}},
    "guided_regex": {"response_format": {"type": "regex", "value": "[a-c]+"}},
    "guided_choice": {"response_format": {"type": "regex", "value": "(yes|no)"}},
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"), "hint"
    ),
    **dict.fromkeys(("prediction", "guided_decoding_backend"), "hint"),
}


@pytest.mark.parametrize("field", ASKED)
def test_every_field_is_sent_or_said_otherwise_or_refused_or_reported(field: str):
    check(TGI, field, VERDICTS[field])


@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_neither_refused_nor_sent(field: str):
    """A presence_penalty of 0 would be a repetition penalty of 2 there, and a top_p of 1 a 422."""
    body, dropped = sent(TGI, {field: SILENT[field]})
    assert dropped == [] and body.keys() <= {"model", "messages", "stream", "frequency_penalty"}


@pytest.mark.parametrize(
    ("word", "said", "how"),
    [
        ("guided_json", SCHEMA, "validated"),
        ("guided_regex", "a", "enforced"),
        ("guided_choice", ["a.b", "c|d"], "converted"),
    ],
)
def test_it_is_told_how_it_obeys(word: str, said: Any, how: str):
    guiding = prepare(TGI, "openai_chat", json.dumps({"model": "m", "messages": HI, word: said}).encode()).constraint_plan
    assert guiding is not None and guiding.enforcement == how
    trusted = build_provider("tgi", "tgi", {"guided": "enforced"}, "http://127.0.0.1:1")
    guiding = prepare(trusted, "openai_chat", json.dumps({"model": "m", "messages": HI, word: said}).encode()).constraint_plan
    assert guiding is not None and guiding.enforcement == ("enforced" if how == "validated" else how)


@pytest.mark.parametrize(
    ("said", "sent_as"), [("^a+$", "a+"), ("^a", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("^a|b$", "a|b"), ("a+", "a+")]
)
def test_a_regex_goes_without_anchors_which_say_nothing_there(said: str, sent_as: str):
    assert sent(TGI, {"guided_regex": said})[0]["response_format"] == {"type": "regex", "value": sent_as}


def test_its_own_words_for_a_schema_and_a_regex_are_understood():
    said = {"type": "json", "value": SCHEMA}
    assert sent(TGI, {"response_format": said})[0]["response_format"] == {"type": "json_schema", "value": {"schema": SCHEMA}}
    said = {"type": "regex", "value": "a+"}
    assert sent(TGI, {"response_format": said})[0]["response_format"] == said


def test_a_json_object_of_any_kind_cannot_be_asked_for():
    with pytest.raises(Unsupported, match="json object"):
        sent(TGI, {"response_format": {"type": "json_object"}})


def test_tools_beside_a_constraint_are_refused_by_both_names():
    fields = {"tools": [TOOL], "response_format": ASKED["response_format"]}
    with pytest.raises(Unsupported) as refused:
        sent(TGI, fields)
    assert refused.value.param == "tools" and "`response_format`" in refused.value.message


@pytest.mark.parametrize(("leave", "kept"), [("tools", "response_format"), ("response_format", "tools")])
def test_one_of_tools_and_a_constraint_may_be_let_go(leave: str, kept: str):
    fields = {"tools": [TOOL], "tool_choice": "auto", "response_format": ASKED["response_format"]}
    body, dropped = sent(TGI, fields, drop=leave.__eq__)
    assert dropped == [leave] and kept in body and leave not in body


def test_tools_that_may_not_be_called_do_not_hinder_a_constraint():
    body, dropped = sent(TGI, {"tools": [TOOL], "tool_choice": "none", "response_format": ASKED["response_format"]})
    assert dropped == [] and "tools" not in body and body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("part", [{"type": "file", "file": {"file_id": "x"}}, {"type": "input_audio", "input_audio": {"data": "eA=="}}])
def test_a_part_that_it_cannot_read_is_refused_by_its_place(part: dict[str, Any]):
    with pytest.raises(Unsupported) as refused:
        sent(TGI, {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]})
    assert refused.value.param == "messages[0].content[1]"


def test_a_strict_tool_is_refused_by_its_place():
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    with pytest.raises(Unsupported) as refused:
        sent(TGI, {"tools": [strict]})
    assert refused.value.param == "tools[0].function.strict"


COMPLETION: Mapping[str, Any] = {
    "logprobs": 1,
    "echo": True,
    "n": 2,
    "presence_penalty": 0.5,
    "logit_bias": {"1": 2},
    "top_k": 5,
    "min_p": 0.1,
    "guided_regex": "a",
    "response_format": ASKED["response_format"],
}


@pytest.mark.parametrize("field", COMPLETION)
def test_what_its_completions_have_no_field_for_is_refused(field: str):
    with pytest.raises(Unsupported) as refused:
        prepare(TGI, "openai_completions", json.dumps({"model": "m", "prompt": "x", field: COMPLETION[field]}).encode())
    assert refused.value.param == field


def test_its_completions_take_a_repetition_penalty_by_its_name():
    raw = json.dumps({"model": "m", "prompt": "x", "repetition_penalty": 1.5, "stop": "END", "max_tokens": 3, "n": 1}).encode()
    told = {"model": "m", "prompt": "x", "repetition_penalty": 1.5, "stop": ["END"], "max_tokens": 3}
    assert json.loads(prepare(TGI, "openai_completions", raw).raw) == told


def test_it_has_no_embeddings():
    with pytest.raises(OperationNotSupported):
        prepare(TGI, "openai_embeddings", b'{"model": "m", "input": "x"}')


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (422, b'{"error":"Input validation error: `temperature` must be strictly positive","error_type":"validation"}', UpstreamRejected),
        (422, b"Failed to deserialize the JSON body into the target type: response_format.type: unknown variant", UpstreamRejected),
        (424, b'{"error":"Request failed during generation","error_type":"generation"}', UpstreamFailed),
        (429, b'{"error":"Model is overloaded","error_type":"overloaded"}', Overloaded),
        (500, b'{"error":"Incomplete generation","error_type":"incomplete_generation"}', UpstreamFailed),
    ],
)
def test_its_errors_are_whose_fault_they_are(status: int, body: bytes, kind: type):
    error = TGI.read_error(status, {}, body)
    assert type(error) is kind and error.message in body.decode()
