"""Facts on which the vLLM adapter relies, checked at a real vLLM: which fields constrain its output, and which it accepts and ignores."""

import json
import re
from typing import Any

import pytest

from tests.engines.constraint_samples import (
    BOOKING,
    CHOICE,
    EBNF,
    LARK,
    REFUSED_BY_XGRAMMAR,
    REGEX,
    ROOM_REGEX,
    SUFFICIENT_TOKENS,
    assert_booking,
)
from tests.engines.direct_requests import chat_choice, post_chat, stream_chunks
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

STRUCTURAL_TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<booking>", "content": {"type": "json_schema", "json_schema": BOOKING}, "end": "</booking>"},
}
SAMPLES = 8


def completed_text(vllm: Engine, **fields: Any) -> str:
    """The text of a complete response."""
    choice = chat_choice(vllm, max_tokens=SUFFICIENT_TOKENS, **fields)
    assert choice["finish_reason"] == "stop", choice
    return choice["message"]["content"]


@pytest.mark.parametrize(
    "removed",
    [{"guided_json": BOOKING}, {"guided_regex": REGEX}, {"guided_choice": CHOICE}, {"guided_grammar": EBNF}],
    ids=lambda each: next(iter(each)),
)
def test_removed_guided_fields_are_accepted_and_ignored(vllm: Engine, removed: dict[str, Any]):
    assert chat_choice(vllm, **removed)["message"] == chat_choice(vllm)["message"]


@pytest.mark.parametrize("schema", [BOOKING, json.dumps(BOOKING)], ids=["object", "string"])
def test_structured_outputs_json_is_enforced(vllm: Engine, schema: object):
    assert_booking(json.loads(completed_text(vllm, structured_outputs={"json": schema})))


def test_structured_outputs_regex_is_enforced(vllm: Engine):
    assert re.fullmatch(REGEX, completed_text(vllm, structured_outputs={"regex": REGEX}))


def test_structured_outputs_choice_is_enforced(vllm: Engine):
    assert completed_text(vllm, structured_outputs={"choice": CHOICE}) in CHOICE


@pytest.mark.parametrize("grammar", [EBNF, LARK], ids=["EBNF", "Lark"])
def test_structured_outputs_grammar_is_enforced(vllm: Engine, grammar: str):
    assert re.fullmatch(ROOM_REGEX, completed_text(vllm, structured_outputs={"grammar": grammar}))


@pytest.mark.parametrize(
    "fields",
    [{"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json_object"}}],
    ids=["structured_outputs", "response_format"],
)
def test_json_object_is_enforced(vllm: Engine, fields: dict[str, Any]):
    choices = post_chat(vllm, n=SAMPLES, max_tokens=SUFFICIENT_TOKENS, **fields).json()["choices"]
    assert all(choice["message"]["content"].startswith("{") for choice in choices)
    finished = [json.loads(choice["message"]["content"]) for choice in choices if choice["finish_reason"] == "stop"]
    assert finished
    assert all(isinstance(value, dict) for value in finished)


def test_structural_tag_in_structured_outputs_must_be_a_string(vllm: Engine):
    tagged = completed_text(vllm, structured_outputs={"structural_tag": json.dumps(STRUCTURAL_TAG)})
    assert_booking(json.loads(tagged.removeprefix("<booking>").removesuffix("</booking>")))
    refused = post_chat(vllm, structured_outputs={"structural_tag": STRUCTURAL_TAG})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "structured_outputs")


def test_structural_tag_as_response_format_object_is_enforced(vllm: Engine):
    tagged = completed_text(vllm, response_format=STRUCTURAL_TAG)
    assert_booking(json.loads(tagged.removeprefix("<booking>").removesuffix("</booking>")))


def test_json_schema_response_format_is_enforced(vllm: Engine):
    assert_booking(
        json.loads(completed_text(vllm, response_format={"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING}}))
    )


def test_constraint_is_enforced_in_a_stream(vllm: Engine):
    streamed = stream_chunks(vllm, structured_outputs={"json": BOOKING}, max_tokens=SUFFICIENT_TOKENS)
    assert_booking(json.loads("".join(frame["choices"][0]["delta"].get("content", "") for frame in streamed)))


def test_per_request_whitespace_and_backend_are_ignored(vllm: Engine):
    constraint = {"json": BOOKING, "whitespace_pattern": "[ ]", "disable_any_whitespace": False, "_backend": "guidance"}
    assert completed_text(vllm, structured_outputs=constraint) == completed_text(vllm, structured_outputs={"json": BOOKING})


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": {"json": BOOKING, "regex": REGEX}},
        {"structured_outputs": {"regex": REGEX}, "response_format": {"type": "json_object"}},
        {"structured_outputs": {}},
    ],
    ids=["two at once", "with response_format", "none"],
)
def test_any_other_number_than_one_constraint_is_a_400(vllm: Engine, fields: dict[str, Any]):
    assert post_chat(vllm, **fields).status_code == 400


INVALID_CONSTRAINTS: dict[str, dict[str, Any]] = {
    "schema": {"json": {"type": "nonsense"}},
    "keyword": {"json": REFUSED_BY_XGRAMMAR},
    "regex": {"regex": "("},
    "grammar": {"grammar": "root ::= ("},
    "choice": {"choice": []},
}


@pytest.mark.parametrize("constraint", INVALID_CONSTRAINTS.values(), ids=INVALID_CONSTRAINTS)
def test_constraint_that_does_not_compile_is_a_400(vllm: Engine, constraint: dict[str, Any]):
    answer = post_chat(vllm, structured_outputs=constraint)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestError")


@pytest.mark.parametrize("constraint", INVALID_CONSTRAINTS.values(), ids=INVALID_CONSTRAINTS)
def test_constraint_that_does_not_compile_is_an_error_frame_in_a_stream(vllm: Engine, constraint: dict[str, Any]):
    [frame] = stream_chunks(vllm, structured_outputs=constraint)
    assert (frame["error"]["type"], frame["error"]["code"]) == ("BadRequestError", 400)


def test_schema_keywords_unknown_to_xgrammar_are_ignored(vllm: Engine):
    only_three = {"type": "integer", "minimum": 1, "maximum": 3, "not": {"enum": [1, 2]}}
    choices = post_chat(vllm, n=SAMPLES, structured_outputs={"json": only_three}).json()["choices"]
    assert {choice["message"]["content"] for choice in choices} & {"1", "2"}


def test_bounded_string_may_contain_control_characters(vllm: Engine):
    short = {"type": "string", "minLength": 20, "maxLength": 20}
    texts = [
        choice["message"]["content"]
        for choice in post_chat(vllm, n=SAMPLES, max_tokens=SUFFICIENT_TOKENS, structured_outputs={"json": short}).json()["choices"]
    ]
    assert any(re.search("[\x00-\x1f]", text) for text in texts)
    # Shorter where the random model writes special tokens, which the grammar counts and the text does not contain.
    assert all(len(json.loads(text, strict=False)) <= 20 for text in texts)


def test_thinking_is_not_constrained(vllm: Engine):
    choice = chat_choice(vllm, structured_outputs={"choice": CHOICE}, chat_template_kwargs={"thinking": True})
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "length")
