"""Nonstandard variants of OpenAI chat responses that engines send are read, whole and streamed."""

import json
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.chat import Choice, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamError, UpstreamFailed
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, assemble_response
from providers.dialects.openai_chat import OpenAIChat
from tests.support.strategies.chat_strategies import (
    META,
    META_WITHOUT_USAGE,
    chunk,
    chunk_choice,
    encode_sse_chunks,
    parse_sse_chunks,
    usage,
)

DIALECT = OpenAIChat()


def read_stream(chunks: list[Any]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [*reader.feed(encode_sse_chunks(chunks)), *reader.finish()]


def read_choice(message: Any, finish_reason: str = "stop", **more: Any) -> Choice:
    raw = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason, **more}]}).encode()
    return DIALECT.read_response(raw).choices[0]


THINKING = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]
NONSTANDARD_MESSAGES: list[tuple[dict[str, Any], tuple[Part, ...]]] = [
    ({"content": [{"type": "text", "text": "Hi"}]}, (Text("Hi"),)),
    ({"content": THINKING}, (Reasoning("hm"), Text("Hi"))),
    ({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "reference", "reference_ids": [1]}]}, (Reasoning("hm"),)),
    ({"content": [{"type": "refusal", "refusal": "no"}]}, (Refusal("no"),)),
    ({"content": "Hi", "reasoning": "hm"}, (Reasoning("hm"), Text("Hi"))),
    ({"content": "Hi", "reasoning": "hm", "reasoning_content": "hm"}, (Reasoning("hm"), Text("Hi"))),
    ({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"b": 1}}}]}, (ToolCall("a", "f", '{"b":1}'),)),
    ({"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]}, (ToolCall("a", "f", "x", custom=True),)),
    (
        {"tool_calls": [{"id": "a", "function": {"name": "f"}, "extra_content": {"google": {"thought_signature": "s"}}}]},
        (ToolCall("a", "f", "{}", opaque_state=OpaqueState("gemini", "s")),),
    ),
    (
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "format": "x", "index": 0}]},
        (Reasoning("hm", OpaqueState("openai_chat", '{"type":"reasoning.text","signature":"s","format":"x","index":0}')),),
    ),
    (
        {"content": "Hi", "reasoning_details": [{"type": "reasoning.encrypted", "data": "s", "id": "r1"}]},
        (Opaque("openai_chat", Raw(b'{"type":"reasoning.encrypted","data":"s","id":"r1"}')), Text("Hi")),
    ),
    (
        {"content": "Hi", "reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]},
        (Reasoning("s", OpaqueState("openai_chat", '{"type":"reasoning.summary"}')), Text("Hi")),
    ),
    ({"content": "Hi", "reasoning_details": "no list", "annotations": {}}, (Text("Hi"),)),
]


@pytest.mark.parametrize(("message", "parts"), NONSTANDARD_MESSAGES, ids=range(len(NONSTANDARD_MESSAGES)))
def test_nonstandard_message_is_read_into_canonical_parts(message: dict[str, Any], parts: tuple[Part, ...]) -> None:
    assert read_choice(message).parts == parts


NONSTANDARD_DELTAS = [
    (message, parts) for message, parts in NONSTANDARD_MESSAGES if not any(getattr(part, "extra", None) for part in parts)
]


@pytest.mark.parametrize(("message", "parts"), NONSTANDARD_DELTAS, ids=range(len(NONSTANDARD_DELTAS)))
def test_nonstandard_delta_is_read_like_the_message(message: dict[str, Any], parts: tuple[Part, ...]) -> None:
    calls = [{**call, "index": at} for at, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, "tool_calls": calls} if calls else message
    read = assemble_response(read_stream([chunk([chunk_choice(**delta)]), chunk([chunk_choice(0, "stop")])])).choices[0].parts
    assert sorted(read, key=repr) == sorted(parts, key=repr)


@pytest.mark.parametrize(
    ("finish_reason", "more", "ending"),
    [
        ("stop", {"stop_reason": "END"}, ("stop", "stop_sequence", "END")),
        ("stop", {"matched_stop": "END"}, ("stop", "stop_sequence", "END")),
        ("stop", {"stop_reason": 151645}, ("stop", None, None)),
        ("stop", {"stop_reason": {"x": 1}}, ("stop", None, None)),
        ("length", {"stop_reason": None}, ("length", None, None)),
        ("function_call", {}, ("tool_calls", "function_call", None)),
        ("model_length", {}, ("length", "model_length", None)),
        ("eos_token", {}, ("stop", "eos_token", None)),
    ],
    ids=str,
)
def test_finish_reasons_are_mapped_to_openais_whole_and_streamed(
    finish_reason: str, more: dict[str, Any], ending: tuple[str, str | None, str | None]
) -> None:
    choice = read_choice({"content": "Hi"}, finish_reason, **more)
    assert (choice.finish_reason, choice.upstream_finish_reason, choice.stop_sequence) == ending
    finished = read_stream([chunk([{**chunk_choice(0, finish_reason, content="Hi"), **more}])])[-1]
    assert finished == ChoiceFinished(0, *ending)


@pytest.mark.parametrize("reason", ["error", "abort", "parse_error"])
def test_error_finish_reason_is_an_upstream_failure(reason: str) -> None:
    with pytest.raises(UpstreamFailed, match=reason):
        read_choice({"content": "Hi"}, reason)


def test_tool_call_without_an_id_gets_one() -> None:
    (call,) = read_choice({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}).parts
    (legacy,) = read_choice({"function_call": {"name": "f", "arguments": "{}"}}, "function_call").parts
    (delta,) = (
        assemble_response(read_stream([chunk([chunk_choice(0, "tool_calls", tool_calls=[{"function": {"name": "f"}}])])])).choices[0].parts
    )
    for each in (call, legacy, delta):
        assert isinstance(each, ToolCall)
        assert each.name == "f"
        assert each.id.startswith("call_")
        assert len(each.id) == len("call_") + 24


def test_complete_tool_calls_with_the_same_index_stay_separate() -> None:
    def call(id: str) -> dict[str, Any]:
        return chunk_choice(tool_calls=[{"index": 0, "id": id, "function": {"name": "f", "arguments": '{"a":1}'}}])

    events = read_stream([chunk([call("a")]), chunk([call("b")]), chunk([chunk_choice(0, "tool_calls")])])
    assert assemble_response(events).choices[0].parts == (ToolCall("a", "f", '{"a":1}'), ToolCall("b", "f", '{"a":1}'))


def test_every_part_is_closed_once_before_its_choice_finishes() -> None:
    def call(index: int, id: str | None, arguments: str) -> dict[str, Any]:
        return chunk_choice(tool_calls=[{"index": index, **({"id": id} if id else {}), "function": {"name": "f", "arguments": arguments}}])

    chunks = [
        chunk([chunk_choice(reasoning="hm")]),
        chunk([chunk_choice(content="Hi")]),
        chunk([call(0, "a", '{"b":')]),
        chunk([call(1, "b", "{}")]),
        chunk([call(2, "c", "")]),
        chunk([call(0, None, "1}")]),
        chunk([chunk_choice(0, "tool_calls")]),
    ]
    events = [event for event in read_stream(chunks) if isinstance(event, PartStarted | PartFinished | ChoiceFinished)]
    shown = [(type(event).__name__, getattr(event, "index", None)) for event in events]
    assert shown == [
        *[("PartStarted", 0), ("PartFinished", 0), ("PartStarted", 1), ("PartFinished", 1)],
        *[("PartStarted", 2), ("PartStarted", 3), ("PartFinished", 3), ("PartStarted", 4)],
        *[("PartFinished", 2), ("PartFinished", 4), ("ChoiceFinished", None)],
    ]


def test_delta_for_a_closed_tool_call_is_an_invalid_response() -> None:
    calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}, {"index": 1, "id": "b", "function": {"name": "g"}}]
    chunks = [chunk([chunk_choice(tool_calls=calls)]), chunk([chunk_choice(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}])])]
    with pytest.raises(InvalidUpstreamResponse):
        read_stream(chunks)


def test_deltas_after_finish_reason_are_ignored_but_usage_is_kept() -> None:
    chunks = [chunk([chunk_choice(0, "stop", content="Hi")]), chunk([chunk_choice(0, "length", content="!")], usage=usage())]
    answer = assemble_response(read_stream(chunks))
    assert answer.choices == (Choice((Text("Hi"),), "stop"),)
    assert answer.usage == Usage(3, 4)


def test_events_before_a_stream_error_are_delivered() -> None:
    reader = DIALECT.stream_reader()
    events: list[Event] = []
    with pytest.raises(UpstreamError, match="no memory"):
        for event in reader.feed(
            encode_sse_chunks([chunk([chunk_choice(content="Hi")]), {"error": {"message": "no memory", "code": 500}}])
        ):
            events.append(event)
    assert PartDelta(0, 0, "Hi") in events


@pytest.mark.parametrize("data", [b"null", b"[]", b'{"choices":[1]}', b'{"choices":[{"delta":{"content":1}}]}', b"hello"])
def test_malformed_chunk_is_an_invalid_upstream_response(data: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        list(DIALECT.stream_reader().feed(b"data: " + data + b"\n\n"))


def test_stream_without_finish_reason_is_truncated() -> None:
    reader = DIALECT.stream_reader()
    list(reader.feed(encode_sse_chunks([chunk([chunk_choice(content="Hi")])]) + b"data: [DONE]\n\n"))
    assert reader.done
    with pytest.raises(StreamTruncated):
        list(reader.finish())


# Usage, wherever an engine reports it.
GROQ = {"id": "x", "usage": usage()}


def test_groq_usage_in_x_groq_is_read_and_reported() -> None:
    chunks = [chunk([chunk_choice(content="Hi")]), chunk([chunk_choice(0, "stop")], x_groq=GROQ)]
    assert assemble_response(read_stream(chunks)).usage == Usage(3, 4)
    editor = DIALECT.stream_editor(META)
    frames = parse_sse_chunks(editor.feed(encode_sse_chunks(chunks)) + editor.finish())
    assert editor.usage == Usage(3, 4)
    assert frames[-1]["usage"] == usage()
    assert frames[-1]["x_groq"] == GROQ


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}}, Usage(3, 4, 2, None, 1)),
        ({"prompt_cache_hit_tokens": 2}, Usage(3, 4, 2)),
        ({"reasoning_tokens": 2}, Usage(3, 4, None, 2)),
        ({"completion_tokens_details": {"reasoning_tokens": 1}, "reasoning_tokens": 2}, Usage(3, 4, None, 1)),
    ],
    ids=str,
)
def test_usage_details_are_read_under_every_known_field_name(details: dict[str, Any], expected: Usage) -> None:
    raw = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": {**usage(), **details}}).encode()
    assert DIALECT.read_response(raw).usage == DIALECT.edit_response(raw, META).usage == expected


# Text completions that engines send on the chat route.
MINI_SGLANG = [
    {"id": "cmpl-1", "object": "text_completion.chunk", "choices": [{"delta": delta, "index": 0, "finish_reason": reason}]}
    for delta, reason in (({"role": "assistant"}, None), ({"content": "Code"}, None), ({"content": " flows"}, None), ({}, "stop"))
]
COMPLETION = [
    {"id": "cmpl-1", "object": "text_completion", "created": 5, "choices": [{"text": text, "index": 0, "finish_reason": reason}]}
    for text, reason in (("Code", None), (" flows", None), ("", "stop"))
]


@pytest.mark.parametrize("chunks", [MINI_SGLANG, COMPLETION], ids=["mini_sglang", "completion"])
def test_text_completion_stream_is_presented_as_chat_chunks(chunks: list[dict[str, Any]]) -> None:
    assert assemble_response(read_stream(chunks)).choices == (Choice((Text("Code flows"),), "stop"),)
    editor = DIALECT.stream_editor(META_WITHOUT_USAGE)
    frames = parse_sse_chunks(editor.feed(encode_sse_chunks(chunks)) + editor.finish())
    assert {(each["id"], each["object"], each["model"]) for each in frames} == {(META.id, "chat.completion.chunk", META.model)}
    assert all(isinstance(each["created"], int) for each in frames)
    assert not any("text" in choice for each in frames for choice in each["choices"])
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in frames) == "Code flows"
    assert [each["choices"][0]["finish_reason"] for each in frames][-1] == "stop"


def test_text_completion_response_is_presented_as_a_chat_completion() -> None:
    raw = b'{"object":"text_completion","choices":[{"index":0,"text":"Code","finish_reason":"stop"}]}'
    edited = json.loads(DIALECT.edit_response(raw, META).raw)
    assert edited["object"] == "chat.completion"
    assert edited["choices"] == [{"index": 0, "message": {"role": "assistant", "content": "Code"}, "finish_reason": "stop"}]
    assert DIALECT.read_response(raw).choices == (Choice((Text("Code"),), "stop"),)
