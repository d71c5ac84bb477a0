"""What a target cannot honour is told by the place where the caller wrote it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.dialect import ChatDialect, DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_responses import OpenAIResponses, list_input_items, prepend_items
from tests.laws.chats import bounded
from tests.laws.responses import requests

DIALECT = OpenAIResponses()
OTHERS = [CHAT_DIALECTS["openai_chat"], CHAT_DIALECTS["anthropic_messages"]]
STEP = re.compile(r"\[(\d+)\]|\.?([^.\[]+)")


def at(told: Any, path: str) -> Any:
    """Raises what Python raises for a place that is not there."""
    for number, key in STEP.findall(path):
        told = told[int(number)] if number else told[key]
    return told


def places_named(body: Body, target: ChatDialect) -> dict[str, str]:
    """By the paths of the meaning that a target names for a request, the caller's own."""
    named: dict[str, str] = {}

    def place(path: str) -> str:
        named[path] = DIALECT.caller_path(body, path)
        return named[path]

    target.write_request(DIALECT.read_request(body), DropPolicy(lambda _: True, DIALECT.field_names, "a target", place, max_paths=10_000))
    return named


def written(chat: ChatRequest) -> Body:
    return Body.read(DIALECT.write_request(chat, DropPolicy(lambda _: True, {}, "a target")).write())


@bounded
@given(requests, st.sampled_from(OTHERS))
def test_every_place_that_a_target_names_is_there_in_the_callers_json(chat: ChatRequest, target: ChatDialect) -> None:
    body = written(chat)
    told = json.loads(body.write())
    for place in places_named(body, target).values():
        at(told, place)


@bounded
@given(requests)
def test_every_part_has_the_place_of_its_own_text(chat: ChatRequest) -> None:
    """And no two parts the same, but for those of one carrier."""
    body = written(chat)
    told = json.loads(body.write())
    said = DIALECT.read_request(body).messages
    paths = [f"messages[{i}].content[{j}]" for i, message in enumerate(said) for j in range(len(message.parts))]
    places = [DIALECT.caller_path(body, path) for path in paths]
    assert len(set(places)) == len(places)
    for path, place in zip(paths, places, strict=True):
        i, j = map(int, re.findall(r"\d+", path))
        part, there = said[i].parts[j], at(told, place)
        text: str | None = getattr(part, "text", None)
        if text is not None and not isinstance(there, str):
            there = there.get("text", there.get("refusal", json.dumps(there, ensure_ascii=False)))
            assert text == there or json.dumps(text, ensure_ascii=False)[1:-1] in there
        elif text is not None:
            assert there == text


@bounded
@given(requests, requests, st.sampled_from(OTHERS))
def test_after_an_earlier_answer_a_place_is_the_asks_own_or_the_name_of_that(
    before: ChatRequest, chat: ChatRequest, target: ChatDialect
) -> None:
    body, told = written(chat), json.loads(written(chat).write())
    alone = set(places_named(Body(body), target).values())
    prepend_items(body, list_input_items(written(before)))
    named = set(places_named(body, target).values())
    for place in named - {"previous_response_id"}:
        at(told, place)
    assert {place for place in alone if "content" in place and place.endswith("]")} <= named


FUNCTION = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "ok"}
PICTURE = {"type": "input_image", "image_url": "https://example.com/a.png"}
ASKED: dict[str, Any] = {
    "model": "m",
    "instructions": "be brief",
    "input": [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, {**PICTURE, "detail": "low"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]},
        {**FUNCTION, "namespace": "n"},
        {"type": "message", "role": "assistant", "content": "c", "x_new": 1},
        RESULT,
        {**RESULT, "output": [{"type": "input_text", "text": "see"}, PICTURE]},
        {"type": "x_new_call", "id": "x"},
    ],
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("messages[0]", "instructions"),
        ("messages[0].content[0]", "instructions"),
        ("messages[1].content[0]", "input[0].content"),
        ("messages[2].content[1].detail", "input[1].content[1].detail"),
        ("messages[2].content[1].is_error", "input[1].content[1]"),
        ("messages[3]", "input[2]"),
        ("messages[3].content[1]", "input[2].content[1]"),
        ("messages[3].content[1].citations", "input[2].content[1]"),
        ("messages[3].content[2].namespace", "input[3].namespace"),
        ("messages[3].content[3]", "input[4].content"),
        ("messages[3].x_new", "input[4].x_new"),
        ("messages[4].content[0]", "input[5]"),
        ("messages[4].content[0].content[0]", "input[5].output"),
        ("messages[4].content[1].content[1]", "input[6].output[1]"),
        ("messages[5].content[0]", "input[7]"),
        ("messages[5].content[1]", "messages[5].content[1]"),
        ("messages[6]", "messages[6]"),
        ("tools[0]", "tools[0]"),
    ],
)
def test_the_place_of(path: str, place: str) -> None:
    assert DIALECT.caller_path(Body.read(json.dumps(ASKED).encode()), path) == place


def test_a_text_in_place_of_items_is_one_place() -> None:
    body = Body.read(b'{"model": "m", "input": "hi"}')
    assert DIALECT.caller_path(body, "messages[0].content[0]") == "input"
    prepend_items(body, [])
    assert DIALECT.caller_path(body, "messages[0].content[0].x") == "input"
