"""TGI's adapter: OpenAI's fields become TGI's own, and a field that it does not have is never sent silently."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.canonical.errors import OperationNotSupported, Overloaded, Unsupported, UpstreamFailed, UpstreamRejected
from providers.catalogue import build_provider
from tests.support.case_tables import assert_every
from tests.support.field_handling import (
    FIELD_VALUES,
    FUNCTIONS_AS_TOOLS,
    HI,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    emulated_chat_fields,
    translate_body,
    translate_chat_fields,
)

TGI = build_provider("tgi", "tgi", {}, "http://127.0.0.1:1")
SCHEMA = {"type": "object"}
EXPECTED_BY_FIELD: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(FIELD_VALUES, "refused"),
    **dict.fromkeys(("reasoning_effort", "verbosity"), "hint"),
    "functions": FUNCTIONS_AS_TOOLS,
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


def test_every_field_is_sent_converted_refused_or_reported():
    assert_fields_are_handled(TGI, {field: EXPECTED_BY_FIELD[field] for field in FIELD_VALUES})


def test_neutral_value_is_neither_refused_nor_sent():
    """TGI reads a presence_penalty of 0 as a repetition penalty of 2, and answers a top_p of 1 with 422."""

    def check(field: str) -> None:
        body, dropped = translate_chat_fields(TGI, {field: NEUTRAL_FIELD_VALUES[field]})
        assert dropped == [] and body.keys() <= {"model", "messages", "stream", "frequency_penalty"}

    assert_every(check, NEUTRAL_FIELD_VALUES)


@pytest.mark.parametrize(
    ("field", "value", "how"),
    [
        ("guided_json", SCHEMA, "validated"),
        ("guided_regex", "a", "enforced"),
        ("guided_choice", ["a.b", "c|d"], "converted"),
    ],
)
def test_constraint_plan_says_how_tgi_holds_each_constraint(field: str, value: Any, how: str):
    constraint_plan = translate_body(TGI, "openai_chat", json.dumps({"model": "m", "messages": HI, field: value}).encode()).constraint_plan
    assert constraint_plan is not None and constraint_plan.enforcement == how
    trusted = build_provider("tgi", "tgi", {"guided": "enforced"}, "http://127.0.0.1:1")
    constraint_plan = translate_body(
        trusted, "openai_chat", json.dumps({"model": "m", "messages": HI, field: value}).encode()
    ).constraint_plan
    assert constraint_plan is not None and constraint_plan.enforcement == ("enforced" if how == "validated" else how)


@pytest.mark.parametrize(
    ("regex", "sent_as"), [("^a+$", "a+"), ("^a", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("^a|b$", "a|b"), ("a+", "a+")]
)
def test_regex_is_sent_without_its_anchors(regex: str, sent_as: str):
    assert translate_chat_fields(TGI, {"guided_regex": regex})[0]["response_format"] == {"type": "regex", "value": sent_as}


def test_tgi_response_formats_are_accepted_from_callers():
    response_format = {"type": "json", "value": SCHEMA}
    assert translate_chat_fields(TGI, {"response_format": response_format})[0]["response_format"] == {
        "type": "json_schema",
        "value": {"schema": SCHEMA},
    }
    response_format = {"type": "regex", "value": "a+"}
    assert translate_chat_fields(TGI, {"response_format": response_format})[0]["response_format"] == response_format


def test_json_object_mode_is_refused():
    with pytest.raises(Unsupported, match="json object"):
        translate_chat_fields(TGI, {"response_format": {"type": "json_object"}})


def test_tools_beside_a_constraint_are_refused_naming_both():
    fields = {"tools": [TOOL], "response_format": FIELD_VALUES["response_format"]}
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(TGI, fields)
    assert refused.value.param == "tools" and "`response_format`" in refused.value.message


@pytest.mark.parametrize(("dropped_field", "kept"), [("tools", "response_format"), ("response_format", "tools")])
def test_either_tools_or_the_constraint_can_be_dropped(dropped_field: str, kept: str):
    fields = {"tools": [TOOL], "tool_choice": "auto", "response_format": FIELD_VALUES["response_format"]}
    body, dropped = translate_chat_fields(TGI, fields, drop=dropped_field.__eq__)
    assert dropped == [dropped_field] and kept in body and dropped_field not in body


def test_tool_choice_none_drops_the_tools_and_keeps_the_constraint():
    body, dropped = translate_chat_fields(TGI, {"tools": [TOOL], "tool_choice": "none", "response_format": FIELD_VALUES["response_format"]})
    assert dropped == [] and "tools" not in body and body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("part", [{"type": "file", "file": {"file_id": "x"}}, {"type": "input_audio", "input_audio": {"data": "eA=="}}])
def test_unsupported_content_part_is_refused_by_its_path(part: dict[str, Any]):
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(TGI, {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]})
    assert refused.value.param == "messages[0].content[1]"


def test_strict_tool_is_held_to_its_schema_by_the_gateway():
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    assert emulated_chat_fields(TGI, {"tools": [strict]}) == ("tools[0].function.strict",)


COMPLETION: Mapping[str, Any] = {
    "logprobs": 1,
    "echo": True,
    "n": 2,
    "presence_penalty": 0.5,
    "logit_bias": {"1": 2},
    "top_k": 5,
    "min_p": 0.1,
    "guided_regex": "a",
    "response_format": FIELD_VALUES["response_format"],
}


@pytest.mark.parametrize("field", COMPLETION)
def test_completions_refuse_fields_tgi_lacks(field: str):
    with pytest.raises(Unsupported) as refused:
        translate_body(TGI, "openai_completions", json.dumps({"model": "m", "prompt": "x", field: COMPLETION[field]}).encode())
    assert refused.value.param == field


def test_completions_send_repetition_penalty_by_its_own_name():
    raw = json.dumps({"model": "m", "prompt": "x", "repetition_penalty": 1.5, "stop": "END", "max_tokens": 3, "n": 1}).encode()
    expected = {"model": "m", "prompt": "x", "repetition_penalty": 1.5, "stop": ["END"], "max_tokens": 3}
    assert json.loads(translate_body(TGI, "openai_completions", raw).raw) == expected


def test_embeddings_are_not_offered():
    with pytest.raises(OperationNotSupported):
        translate_body(TGI, "openai_embeddings", b'{"model": "m", "input": "x"}')


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
def test_tgi_errors_map_to_refused_failed_or_overloaded(status: int, body: bytes, kind: type):
    error = TGI.read_error(status, {}, body)
    assert type(error) is kind and error.message in body.decode()
