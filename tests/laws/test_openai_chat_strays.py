"""Laws of strays: however an engine tells its calls of tools, the official client puts them together; what is told well is left alone."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming._deltas import accumulate_delta

from providers.canonical.chat import ToolCall
from providers.canonical.events import assemble_response
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.chats import STAMP, bounded, chunk, piece, told

DIALECT = OpenAIChat()
MINTED = re.compile("call_[0-9a-f]{24}")
Fragment = dict[str, Any]

calls = st.lists(
    st.builds(
        ToolCall, st.text("abc019", min_size=1, max_size=4), st.sampled_from(["f", "g"]), st.sampled_from(['{"a":1}', '{"b": "}{"}'])
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call.id,
)


@st.composite
def spoken(draw: st.DrawFn, said: list[ToolCall]) -> list[Fragment]:
    """As OpenAI tells them: one after the other, the arguments in pieces."""
    fragments: list[Fragment] = []
    for index, call in enumerate(said):
        at = draw(st.integers(0, len(call.arguments)))
        function = {"name": call.name, "arguments": call.arguments[:at]}
        fragments.append({"index": index, "id": call.id, "type": "function", "function": function})
        fragments.append({"index": index, "function": {"arguments": call.arguments[at:]}})
    return fragments


def wire(fragments: list[Fragment]) -> bytes:
    chunks = [*(chunk([piece(tool_calls=[each])]) for each in fragments), chunk([piece(0, "tool_calls")])]
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


def edited(raw: bytes) -> list[Any]:
    editor = DIALECT.stream_editor(STAMP)
    return told(editor.feed(raw) + editor.finish())


def heard(frames: list[Any]) -> list[ToolCall]:
    """As the official client puts deltas together."""
    message: dict[object, object] = {}
    for frame in frames:
        message = accumulate_delta(message, frame["choices"][0]["delta"])
    made: Any = message["tool_calls"]
    assert all(each["type"] == "function" for each in made)
    return [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in made]


@bounded
@given(st.data())
def test_calls_that_are_told_well_are_left_alone(data: st.DataObject) -> None:
    said = data.draw(calls)
    fragments = data.draw(spoken(said))
    frames = edited(wire(fragments))
    assert [each["choices"][0]["delta"].get("tool_calls") for each in frames] == [*([each] for each in fragments), None]
    assert heard(frames) == said


def all_at_zero(first: Fragment, more: Fragment) -> None:
    first["index"] = more["index"] = 0


def no_index(first: Fragment, more: Fragment) -> None:
    del first["index"], more["index"]


def id_again(first: Fragment, more: Fragment) -> None:
    more["id"] = first["id"]


def id_empty_later(first: Fragment, more: Fragment) -> None:
    more["id"] = ""


def name_again(first: Fragment, more: Fragment) -> None:
    more["function"]["name"] = first["function"]["name"]


def name_empty_later(first: Fragment, more: Fragment) -> None:
    more["function"]["name"] = ""


def nulls_later(first: Fragment, more: Fragment) -> None:
    more.update(id=None, type=None)
    more["function"]["name"] = None


def no_type(first: Fragment, more: Fragment) -> None:
    del first["type"]


def empty_type(first: Fragment, more: Fragment) -> None:
    first["type"] = more["type"] = ""


STRAYING = [all_at_zero, no_index, id_again, id_empty_later, name_again, name_empty_later, nulls_later, no_type, empty_type]


@bounded
@given(st.data(), st.sets(st.sampled_from(STRAYING), min_size=1))
def test_calls_that_stray_are_put_together_as_they_were_meant(data: st.DataObject, straying: set[Callable[..., None]]) -> None:
    said = data.draw(calls)
    fragments = data.draw(spoken(said))
    for at in range(0, len(fragments), 2):
        for stray in sorted(straying - {all_at_zero} if no_index in straying else straying, key=lambda each: each.__name__):
            stray(fragments[at], fragments[at + 1])
    raw = wire(fragments)
    assert heard(edited(raw)) == said
    reader = DIALECT.stream_reader()
    assert list(assemble_response([*reader.feed(raw), *reader.finish()]).choices[0].parts) == said


def nameless(arguments: Any = "{}", /, **more: Any) -> Fragment:
    return {"function": {"name": "f", "arguments": arguments}, **more}


@pytest.mark.parametrize("id", [{}, {"id": None}, {"id": ""}], ids=str)
@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=str)
def test_whole_calls_without_ids_are_told_apart_and_get_one_each(id: Fragment, index: Fragment) -> None:
    first, second = heard(edited(wire([nameless('{"a":1}', **id, **index), nameless('{"b":2}', **id, **index)])))
    assert MINTED.fullmatch(first.id) and MINTED.fullmatch(second.id) and first.id != second.id
    assert (first.arguments, second.arguments) == ('{"a":1}', '{"b":2}')


@pytest.mark.parametrize(
    ("arguments", "meant"), [({"a": 1.50, "b": 2**70}, {"a": 1.5, "b": 2**70}), ([1], [1]), ('{"a":1}', {"a": 1})], ids=str
)
def test_arguments_that_are_no_string_are_told_as_one(arguments: Any, meant: Any) -> None:
    (call,) = heard(edited(wire([nameless(arguments, id="a", index=0)])))
    whole = DIALECT.edit_response(json.dumps({"choices": [{"message": {"tool_calls": [nameless(arguments, id="a")]}}]}).encode(), STAMP)
    (again,) = json.loads(whole.raw)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call.arguments) == json.loads(again["function"]["arguments"]) == meant


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}], ids=str)
def test_a_call_without_arguments_has_an_empty_string_of_them(function: Any) -> None:
    assert heard(edited(wire([{"index": 0, "id": "a", "function": function}]))) == [ToolCall("a", "f", "")]


def test_the_calls_of_each_choice_are_their_own() -> None:
    def call(choice: int, id: str) -> Any:
        return chunk([piece(choice, tool_calls=[{**nameless(id=id, index=0), "type": "function"}])])

    chunks = [call(0, "a"), call(1, "b"), chunk([piece(0, "tool_calls"), piece(1, "tool_calls")])]
    frames = edited(b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks))
    assert [each["choices"] for each in frames] == [each["choices"] for each in chunks]


def test_the_calls_of_a_whole_answer_have_what_their_clients_need() -> None:
    made: list[Any] = [
        *(nameless(), nameless(None, id="", odd=1.50), {"id": "c", "custom": {"name": "g", "input": "x"}}),
        {"id": "d", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    body = {"choices": [{"message": {"content": None, "tool_calls": made, "function_call": {"name": "f"}}, "finish_reason": "tool_calls"}]}
    message = json.loads(DIALECT.edit_response(json.dumps(body).encode(), STAMP).raw)["choices"][0]["message"]
    first, second, third, fourth = message.pop("tool_calls")
    assert message == {"content": None, "function_call": {"name": "f"}}
    assert MINTED.fullmatch(first.pop("id")) and first == {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert MINTED.fullmatch(second.pop("id"))
    assert second == {"type": "function", "function": {"name": "f", "arguments": ""}, "odd": 1.5}
    assert (third, fourth) == ({**made[2], "type": "custom"}, made[3])


@pytest.mark.parametrize("calls", [5, [5], [{"index": "x"}], [{"id": 5, "function": {"name": "f"}}]], ids=str)
def test_what_is_no_call_goes_as_it_came(calls: Any) -> None:
    chunks = [chunk([piece(tool_calls=calls)]), chunk([piece(0, "stop")])]
    frames = edited(b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks))
    assert frames[0]["choices"] == chunks[0]["choices"]
    body = {"choices": [{"message": {"tool_calls": calls}}]}
    assert json.loads(DIALECT.edit_response(json.dumps(body).encode(), STAMP).raw)["choices"] == body["choices"]


@pytest.mark.parametrize("between", [[], [chunk([piece(1, content="b")])]], ids=["held", "released"])
def test_a_choice_that_finishes_again_is_passed_over(between: list[Any]) -> None:
    ends = [chunk([piece(0, "tool_calls")]), *between, chunk([piece(0, "stop")]), chunk([piece(0, "stop"), piece(1, "length")])]
    editor = DIALECT.stream_editor(STAMP)
    frames = told(editor.feed(b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in ends)) + editor.finish())
    finished = [(each["index"], each["finish_reason"]) for frame in frames for each in frame["choices"] if each["finish_reason"]]
    assert finished == [(0, "tool_calls"), (1, "length")]
    assert editor.finish_reason == "tool_calls"
