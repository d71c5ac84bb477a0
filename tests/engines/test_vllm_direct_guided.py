"""What our vLLM adapter relies on, seen on a real vLLM: which words constrain its output, and which it hears without obeying."""

import json
import re
from typing import Any

import pytest

from tests.engines.asking import ask, frames, told
from tests.engines.running_vllm import Engine
from tests.engines.shapes import BOOKING, CHOICE, EBNF, ENOUGH_TOKENS, LARK, NOT_FOR_XGRAMMAR, REGEX, ROOM, assert_booking

pytestmark = pytest.mark.engines

TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<booking>", "content": {"type": "json_schema", "json_schema": BOOKING}, "end": "</booking>"},
}
SAMPLES = 8


def said(vllm: Engine, **fields: Any) -> str:
    """The text of an answer that came to its own end."""
    choice = told(vllm, max_tokens=ENOUGH_TOKENS, **fields)
    assert choice["finish_reason"] == "stop", choice
    return choice["message"]["content"]


@pytest.mark.parametrize(
    "removed",
    [{"guided_json": BOOKING}, {"guided_regex": REGEX}, {"guided_choice": CHOICE}, {"guided_grammar": EBNF}],
    ids=lambda each: next(iter(each)),
)
def test_the_removed_guided_words_are_accepted_and_constrain_nothing(vllm: Engine, removed: dict[str, Any]):
    assert told(vllm, **removed)["message"] == told(vllm)["message"]


@pytest.mark.parametrize("schema", [BOOKING, json.dumps(BOOKING)], ids=["object", "string"])
def test_structured_outputs_json_is_obeyed(vllm: Engine, schema: object):
    assert_booking(json.loads(said(vllm, structured_outputs={"json": schema})))


def test_structured_outputs_regex_is_obeyed(vllm: Engine):
    assert re.fullmatch(REGEX, said(vllm, structured_outputs={"regex": REGEX}))


def test_structured_outputs_choice_is_obeyed(vllm: Engine):
    assert said(vllm, structured_outputs={"choice": CHOICE}) in CHOICE


@pytest.mark.parametrize("grammar", [EBNF, LARK], ids=["EBNF", "Lark"])
def test_structured_outputs_grammar_is_obeyed(vllm: Engine, grammar: str):
    assert re.fullmatch(ROOM, said(vllm, structured_outputs={"grammar": grammar}))


@pytest.mark.parametrize(
    "fields",
    [{"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json_object"}}],
    ids=["structured_outputs", "response_format"],
)
def test_a_json_object_is_obeyed(vllm: Engine, fields: dict[str, Any]):
    choices = ask(vllm, n=SAMPLES, max_tokens=ENOUGH_TOKENS, **fields).json()["choices"]
    assert all(choice["message"]["content"].startswith("{") for choice in choices)
    finished = [json.loads(choice["message"]["content"]) for choice in choices if choice["finish_reason"] == "stop"]
    assert finished
    assert all(isinstance(value, dict) for value in finished)


def test_a_structural_tag_among_structured_outputs_is_a_string(vllm: Engine):
    tagged = said(vllm, structured_outputs={"structural_tag": json.dumps(TAG)})
    assert_booking(json.loads(tagged.removeprefix("<booking>").removesuffix("</booking>")))
    refused = ask(vllm, structured_outputs={"structural_tag": TAG})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "structured_outputs")


def test_a_structural_tag_as_response_format_is_an_object(vllm: Engine):
    tagged = said(vllm, response_format=TAG)
    assert_booking(json.loads(tagged.removeprefix("<booking>").removesuffix("</booking>")))


def test_a_json_schema_as_response_format_is_obeyed(vllm: Engine):
    assert_booking(json.loads(said(vllm, response_format={"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING}})))


def test_a_constrained_stream_is_obeyed(vllm: Engine):
    streamed = frames(vllm, structured_outputs={"json": BOOKING}, max_tokens=ENOUGH_TOKENS)
    assert_booking(json.loads("".join(frame["choices"][0]["delta"].get("content", "") for frame in streamed)))


def test_whitespace_and_backend_of_a_single_request_are_accepted_and_change_nothing(vllm: Engine):
    words = {"json": BOOKING, "whitespace_pattern": "[ ]", "disable_any_whitespace": False, "_backend": "guidance"}
    assert said(vllm, structured_outputs=words) == said(vllm, structured_outputs={"json": BOOKING})


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": {"json": BOOKING, "regex": REGEX}},
        {"structured_outputs": {"regex": REGEX}, "response_format": {"type": "json_object"}},
        {"structured_outputs": {}},
    ],
    ids=["two at once", "with response_format", "none"],
)
def test_exactly_one_kind_of_constraint_may_be_asked_for(vllm: Engine, fields: dict[str, Any]):
    assert ask(vllm, **fields).status_code == 400


UNFIT: dict[str, dict[str, Any]] = {
    "schema": {"json": {"type": "nonsense"}},
    "keyword": {"json": NOT_FOR_XGRAMMAR},
    "regex": {"regex": "("},
    "grammar": {"grammar": "root ::= ("},
    "choice": {"choice": []},
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_a_constraint_that_does_not_compile_is_a_400(vllm: Engine, unfit: dict[str, Any]):
    answer = ask(vllm, structured_outputs=unfit)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestError")


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_in_a_stream_the_same_400_is_told_by_the_first_frame_of_a_200(vllm: Engine, unfit: dict[str, Any]):
    [frame] = frames(vllm, structured_outputs=unfit)
    assert (frame["error"]["type"], frame["error"]["code"]) == ("BadRequestError", 400)


def test_keywords_that_xgrammar_does_not_know_are_accepted_and_ignored(vllm: Engine):
    only_three = {"type": "integer", "minimum": 1, "maximum": 3, "not": {"enum": [1, 2]}}
    choices = ask(vllm, n=SAMPLES, structured_outputs={"json": only_three}).json()["choices"]
    assert {choice["message"]["content"] for choice in choices} & {"1", "2"}


def test_a_string_of_bounded_length_may_hold_control_characters(vllm: Engine):
    short = {"type": "string", "minLength": 20, "maxLength": 20}
    texts = [
        choice["message"]["content"]
        for choice in ask(vllm, n=SAMPLES, max_tokens=ENOUGH_TOKENS, structured_outputs={"json": short}).json()["choices"]
    ]
    assert any(re.search("[\x00-\x1f]", text) for text in texts)
    # Shorter where the random model wrote special tokens, which count for the grammar and are left out of the text.
    assert all(len(json.loads(text, strict=False)) <= 20 for text in texts)


def test_nothing_is_constrained_before_the_thinking_ends(vllm: Engine):
    choice = told(vllm, structured_outputs={"choice": CHOICE}, chat_template_kwargs={"thinking": True})
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "length")
