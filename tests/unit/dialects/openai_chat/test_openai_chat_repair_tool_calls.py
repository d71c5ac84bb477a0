"""Repair of tool calls: however an engine streams its calls, the official client assembles them; well-formed calls are left alone."""

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
from tests.support.strategies.chat_strategies import META, bounded, chunk, chunk_choice, encode_sse_chunks, parse_sse_chunks

DIALECT = OpenAIChat()
GENERATED_ID = re.compile("call_[0-9a-f]{24}")
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
def openai_fragments(draw: st.DrawFn, tool_calls: list[ToolCall]) -> list[Fragment]:
    """Calls as OpenAI streams them: one after the other, with the arguments in pieces."""
    fragments: list[Fragment] = []
    for index, call in enumerate(tool_calls):
        at = draw(st.integers(0, len(call.arguments)))
        function = {"name": call.name, "arguments": call.arguments[:at]}
        fragments.append({"index": index, "id": call.id, "type": "function", "function": function})
        fragments.append({"index": index, "function": {"arguments": call.arguments[at:]}})
    return fragments


def encode_sse(fragments: list[Fragment]) -> bytes:
    chunks = [*(chunk([chunk_choice(tool_calls=[each])]) for each in fragments), chunk([chunk_choice(0, "tool_calls")])]
    return encode_sse_chunks(chunks)


def edit_stream(raw: bytes) -> list[Any]:
    editor = DIALECT.stream_editor(META)
    return parse_sse_chunks(editor.feed(raw) + editor.finish())


def assemble_calls(frames: list[Any]) -> list[ToolCall]:
    """The calls as the official client assembles them from deltas."""
    message: dict[object, object] = {}
    for frame in frames:
        message = accumulate_delta(message, frame["choices"][0]["delta"])
    tool_calls: Any = message["tool_calls"]
    assert all(each["type"] == "function" for each in tool_calls)
    return [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in tool_calls]


@bounded
@given(st.data())
def test_well_formed_tool_call_fragments_pass_unchanged(data: st.DataObject) -> None:
    expected = data.draw(calls)
    fragments = data.draw(openai_fragments(expected))
    frames = edit_stream(encode_sse(fragments))
    assert [each["choices"][0]["delta"].get("tool_calls") for each in frames] == [*([each] for each in fragments), None]
    assert assemble_calls(frames) == expected


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


DEFECTS = [all_at_zero, no_index, id_again, id_empty_later, name_again, name_empty_later, nulls_later, no_type, empty_type]


@bounded
@given(st.data(), st.sets(st.sampled_from(DEFECTS), min_size=1))
def test_malformed_tool_call_fragments_are_repaired(data: st.DataObject, defects: set[Callable[..., None]]) -> None:
    expected = data.draw(calls)
    fragments = data.draw(openai_fragments(expected))
    for at in range(0, len(fragments), 2):
        for apply_defect in sorted(defects - {all_at_zero} if no_index in defects else defects, key=lambda each: each.__name__):
            apply_defect(fragments[at], fragments[at + 1])
    raw = encode_sse(fragments)
    assert assemble_calls(edit_stream(raw)) == expected
    reader = DIALECT.stream_reader()
    assert list(assemble_response([*reader.feed(raw), *reader.finish()]).choices[0].parts) == expected


def call_without_id(arguments: Any = "{}", /, **more: Any) -> Fragment:
    return {"function": {"name": "f", "arguments": arguments}, **more}


@pytest.mark.parametrize("id", [{}, {"id": None}, {"id": ""}], ids=str)
@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=str)
def test_complete_tool_calls_without_ids_are_separated_and_get_ids(id: Fragment, index: Fragment) -> None:
    first, second = assemble_calls(
        edit_stream(encode_sse([call_without_id('{"a":1}', **id, **index), call_without_id('{"b":2}', **id, **index)]))
    )
    assert GENERATED_ID.fullmatch(first.id) and GENERATED_ID.fullmatch(second.id) and first.id != second.id
    assert (first.arguments, second.arguments) == ('{"a":1}', '{"b":2}')


@pytest.mark.parametrize(
    ("arguments", "value"), [({"a": 1.50, "b": 2**70}, {"a": 1.5, "b": 2**70}), ([1], [1]), ('{"a":1}', {"a": 1})], ids=str
)
def test_non_string_arguments_are_serialized_to_a_string(arguments: Any, value: Any) -> None:
    (call,) = assemble_calls(edit_stream(encode_sse([call_without_id(arguments, id="a", index=0)])))
    response = DIALECT.edit_response(
        json.dumps({"choices": [{"message": {"tool_calls": [call_without_id(arguments, id="a")]}}]}).encode(), META
    )
    (whole_call,) = json.loads(response.raw)["choices"][0]["message"]["tool_calls"]
    assert json.loads(call.arguments) == json.loads(whole_call["function"]["arguments"]) == value


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}], ids=str)
def test_missing_arguments_become_an_empty_object(function: Any) -> None:
    assert assemble_calls(edit_stream(encode_sse([{"index": 0, "id": "a", "function": function}]))) == [ToolCall("a", "f", "{}")]


def test_tool_calls_of_each_choice_are_kept_apart() -> None:
    def call(choice: int, id: str) -> Any:
        return chunk([chunk_choice(choice, tool_calls=[{**call_without_id(id=id, index=0), "type": "function"}])])

    chunks = [call(0, "a"), call(1, "b"), chunk([chunk_choice(0, "tool_calls"), chunk_choice(1, "tool_calls")])]
    frames = edit_stream(encode_sse_chunks(chunks))
    assert [each["choices"] for each in frames] == [each["choices"] for each in chunks]


def test_tool_calls_of_a_whole_response_get_missing_ids_types_and_arguments() -> None:
    upstream_calls: list[Any] = [
        *(call_without_id(), call_without_id(None, id="", odd=1.50), {"id": "c", "custom": {"name": "g", "input": "x"}}),
        {"id": "d", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    upstream_message = {"content": None, "tool_calls": upstream_calls, "function_call": {"name": "f"}}
    body = {"choices": [{"message": upstream_message, "finish_reason": "tool_calls"}]}
    message = json.loads(DIALECT.edit_response(json.dumps(body).encode(), META).raw)["choices"][0]["message"]
    first, second, third, fourth = message.pop("tool_calls")
    assert message == {"content": None, "function_call": {"name": "f"}}
    assert GENERATED_ID.fullmatch(first.pop("id")) and first == {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert GENERATED_ID.fullmatch(second.pop("id"))
    assert second == {"type": "function", "function": {"name": "f", "arguments": "{}"}, "odd": 1.5}
    assert (third, fourth) == ({**upstream_calls[2], "type": "custom"}, upstream_calls[3])


@pytest.mark.parametrize("calls", [5, [5], [{"index": "x"}], [{"id": 5, "function": {"name": "f"}}]], ids=str)
def test_unrecognizable_tool_calls_pass_unchanged(calls: Any) -> None:
    chunks = [chunk([chunk_choice(content="Hi", tool_calls=calls)]), chunk([chunk_choice(0, "stop")])]
    frames = edit_stream(encode_sse_chunks(chunks))
    assert frames[0]["choices"] == chunks[0]["choices"]
    body = {"choices": [{"message": {"content": "Hi", "tool_calls": calls}, "finish_reason": "stop"}]}
    assert json.loads(DIALECT.edit_response(json.dumps(body).encode(), META).raw)["choices"] == body["choices"]


@pytest.mark.parametrize("between", [[], [chunk([chunk_choice(1, content="b")])]], ids=["held", "released"])
def test_second_finish_reason_of_a_choice_is_ignored(between: list[Any]) -> None:
    ends = [
        chunk([chunk_choice(0, "tool_calls", content="a")]),
        *between,
        chunk([chunk_choice(0, "stop")]),
        chunk([chunk_choice(0, "stop"), chunk_choice(1, "length")]),
    ]
    editor = DIALECT.stream_editor(META)
    frames = parse_sse_chunks(editor.feed(encode_sse_chunks(ends)) + editor.finish())
    finished = [(each["index"], each["finish_reason"]) for frame in frames for each in frame["choices"] if each["finish_reason"]]
    assert finished == [(0, "tool_calls"), (1, "length")]
    assert editor.finish_reason == "tool_calls"
