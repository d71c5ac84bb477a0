"""Responses of Ollama's own chat API: nothing is invented or lost, and half a response is an error."""

import json
from typing import Any

import pytest

from providers.canonical.chat import ChatResponse, Choice, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamFailed
from providers.canonical.events import assemble_response
from providers.canonical.ndjson import NdjsonDecoder
from providers.dialects.ollama_chat import OllamaChat

OLLAMA = OllamaChat()


def response_line(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "created_at": "2026-09-21T14:13:20.5Z", "message": {"role": "assistant", "content": "", **message}, **more}


FINAL_LINE = response_line({}, done=True, done_reason="stop", prompt_eval_count=20, eval_count=9)


def read_stream(*lines: dict[str, Any]) -> ChatResponse:
    reader = OLLAMA.stream_reader()
    raw = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    return assemble_response([*reader.feed(raw), *reader.finish()])


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"prompt_eval_count": 20, "eval_count": 9}, Usage(20, 9)),
        ({"eval_count": 9}, Usage(None, 9)),
        ({}, None),
        ({"prompt_eval_count": -1, "eval_count": 10**15}, None),
    ],
)
def test_missing_or_invalid_token_count_is_unknown(counts: dict[str, int], usage: Usage | None):
    """Ollama omits the count of a prompt that was entirely cached (ollama#2068)."""
    final_line = response_line({"content": "Hi."}, done=True, done_reason="stop", **counts)
    assert read_stream(final_line).usage == OLLAMA.read_response(json.dumps(final_line).encode()).usage == usage


def test_parts_are_ordered_reasoning_text_tool_calls():
    call: dict[str, Any] = {"function": {"name": "now", "arguments": {}}}
    complete = response_line(
        {"thinking": "Hm.", "content": "Let me see.", "tool_calls": [{"id": "c1", **call}]}, done=True, done_reason="stop"
    )
    expected = (Reasoning("Hm."), Text("Let me see."), ToolCall("c1", "now", "{}"))
    answer = OLLAMA.read_response(json.dumps(complete).encode())
    assert answer.choices == (Choice(expected, "tool_calls"),) and answer.created == 1790000000
    parts = [
        response_line({"thinking": "H"}),
        response_line({"thinking": "m."}),
        response_line({"content": "Let me"}),
        response_line({"content": " see."}),
    ]
    assert read_stream(*parts, response_line({"tool_calls": [{"id": "c1", **call}]}), FINAL_LINE).choices == answer.choices


def test_tool_calls_without_ids_get_unique_ids():
    call = {"function": {"name": "now", "arguments": None}}
    parts = read_stream(response_line({"tool_calls": [call, call]}), response_line({"tool_calls": [call]}), FINAL_LINE).choices[0].parts
    ids = {part.id for part in parts if isinstance(part, ToolCall) and part.arguments == "{}"}
    assert len(ids) == 3 and all(id.startswith("call_") for id in ids)


def test_tool_call_arguments_keep_their_original_text():
    raw = json.dumps(response_line({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "HERE"}}]}, done=True))
    (part,) = OLLAMA.read_response(raw.replace('"HERE"', '{"b": 1.50, "a": "\\u00e9"}').encode()).choices[0].parts
    assert part == ToolCall("c", "f", '{"b": 1.50, "a": "\\u00e9"}')


@pytest.mark.parametrize(
    ("reason", "finish", "upstream_reason"),
    [
        ("stop", "stop", None),
        ("length", "length", None),
        (None, "stop", None),
        ("token_limit", "length", "token_limit"),
        ("news", "stop", "news"),
    ],
)
def test_done_reason_maps_to_finish_reason_and_unknown_reasons_are_kept(reason: str | None, finish: str, upstream_reason: str | None):
    choice = read_stream(response_line({"content": "x"}, done=True, done_reason=reason)).choices[0]
    assert (choice.finish_reason, choice.upstream_finish_reason) == (finish, upstream_reason)


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_model_that_was_only_loaded_or_unloaded_has_not_answered(reason: str):
    line = response_line({"content": ""}, done=True, done_reason=reason)
    for read in (lambda: read_stream(line), lambda: OLLAMA.read_response(json.dumps(line).encode())):
        with pytest.raises(UpstreamFailed, match=reason) as caught:
            read()
        assert caught.value.retry_elsewhere


def test_logprobs_gain_the_fields_openai_clients_require():
    answer = read_stream(response_line({"content": "Hi"}, logprobs=[{"token": "Hi", "logprob": -0.5}]), FINAL_LINE)
    entries = answer.choices[0].logprobs
    assert entries is not None
    assert [json.loads(bytes(entry)) for entry in entries] == [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]


def test_stream_error_is_raised_after_the_preceding_events():
    reader = OLLAMA.stream_reader()
    events = iter(
        reader.feed(json.dumps(response_line({"content": "Once"})).encode() + b'\n{"error":"llama runner process has terminated"}\n')
    )
    assert assemble_response([next(events) for _ in range(3)]).choices[0].parts == (Text("Once"),)
    with pytest.raises(UpstreamFailed, match="has terminated"):
        next(events)
    with pytest.raises(UpstreamFailed, match="has terminated"):
        OLLAMA.read_response(b'{"error":"llama runner process has terminated"}')


def test_stream_without_a_done_line_is_truncated():
    with pytest.raises(StreamTruncated):
        read_stream(response_line({"content": "Once upon"}))
    reader = OLLAMA.stream_reader()
    list(reader.feed(json.dumps(response_line({"content": "Once"})).encode() + b"\n" + json.dumps(FINAL_LINE).encode()[:-9]))
    with pytest.raises(StreamTruncated):
        list(reader.finish())


def test_final_line_without_a_newline_is_read():
    reader = OLLAMA.stream_reader()
    events = [
        *reader.feed(json.dumps(response_line({"content": "Hi."})).encode() + b"\n" + json.dumps(FINAL_LINE).encode()),
        *reader.finish(),
    ]
    assert assemble_response(events).choices[0].finish_reason == "stop" and reader.done


def test_lines_after_done_are_ignored():
    assert read_stream(FINAL_LINE, response_line({"content": "more"})).choices == (Choice((), "stop"),)


def test_lone_surrogate_becomes_the_replacement_character():
    raw = json.dumps(response_line({"content": "HERE"}, done=True)).replace("HERE", "a\\ud83d").encode()
    assert OLLAMA.read_response(raw).choices[0].parts == (Text("a\ufffd"),)


@pytest.mark.parametrize("raw", [b"not json", b"[]", b'{"message": 3}', b'{"message": {"tool_calls": [{}]}}'])
def test_invalid_response_body_is_an_invalid_upstream_response(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        OLLAMA.read_response(raw)


def test_line_longer_than_the_limit_is_rejected():
    lines = NdjsonDecoder(limit_bytes=10)
    lines.feed(b"0123456789")
    with pytest.raises(InvalidUpstreamResponse):
        lines.feed(b"0")
