"""Laws of the answers of Ollama's own chat: nothing is invented, nothing is lost, and half an answer is none."""

import json
from typing import Any

import pytest

from providers.canonical.chat import ChatResponse, Choice, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamFailed
from providers.canonical.events import assemble_response
from providers.dialects.ollama_chat import OllamaChat
from providers.dialects.ollama_chat.ndjson import NdjsonLines

OLLAMA = OllamaChat()


def line(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "created_at": "2026-09-21T14:13:20.5Z", "message": {"role": "assistant", "content": "", **message}, **more}


END = line({}, done=True, done_reason="stop", prompt_eval_count=20, eval_count=9)


def read(*lines: dict[str, Any]) -> ChatResponse:
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
def test_a_count_that_is_not_told_is_not_known(counts: dict[str, int], usage: Usage | None):
    """It leaves the count of a prompt out that was all in its cache (ollama#2068)."""
    told = line({"content": "Hi."}, done=True, done_reason="stop", **counts)
    assert read(told).usage == OLLAMA.read_response(json.dumps(told).encode()).usage == usage


def test_thinking_comes_before_the_text_and_calls_after_it():
    call: dict[str, Any] = {"function": {"name": "now", "arguments": {}}}
    whole = line({"thinking": "Hm.", "content": "Let me see.", "tool_calls": [{"id": "c1", **call}]}, done=True, done_reason="stop")
    expected = (Reasoning("Hm."), Text("Let me see."), ToolCall("c1", "now", "{}"))
    answer = OLLAMA.read_response(json.dumps(whole).encode())
    assert answer.choices == (Choice(expected, "tool_calls"),) and answer.created == 1790000000
    parts = [line({"thinking": "H"}), line({"thinking": "m."}), line({"content": "Let me"}), line({"content": " see."})]
    assert read(*parts, line({"tool_calls": [{"id": "c1", **call}]}), END).choices == answer.choices


def test_calls_without_ids_get_some_and_each_its_own():
    call = {"function": {"name": "now", "arguments": None}}
    parts = read(line({"tool_calls": [call, call]}), line({"tool_calls": [call]}), END).choices[0].parts
    ids = {part.id for part in parts if isinstance(part, ToolCall) and part.arguments == "{}"}
    assert len(ids) == 3 and all(id.startswith("call_") for id in ids)


def test_arguments_are_said_as_they_were_written():
    raw = json.dumps(line({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "HERE"}}]}, done=True))
    (part,) = OLLAMA.read_response(raw.replace('"HERE"', '{"b": 1.50, "a": "\\u00e9"}').encode()).choices[0].parts
    assert part == ToolCall("c", "f", '{"b": 1.50, "a": "\\u00e9"}')


@pytest.mark.parametrize(
    ("reason", "finish", "told"),
    [("stop", "stop", None), ("length", "length", None), (None, "stop", None), ("load", "stop", "load"), ("unload", "stop", "unload")],
)
def test_its_words_for_an_end_are_openais_or_told_beside_them(reason: str | None, finish: str, told: str | None):
    choice = read(line({"content": "x"}, done=True, done_reason=reason)).choices[0]
    assert (choice.finish_reason, choice.upstream_finish_reason) == (finish, told)


def test_logprobs_are_told_with_all_the_fields_that_clients_want():
    answer = read(line({"content": "Hi"}, logprobs=[{"token": "Hi", "logprob": -0.5}]), END)
    entries = answer.choices[0].logprobs
    assert entries is not None
    assert [json.loads(bytes(entry)) for entry in entries] == [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]


def test_an_error_in_the_stream_comes_after_what_was_said_before_it():
    reader = OLLAMA.stream_reader()
    events = iter(reader.feed(json.dumps(line({"content": "Once"})).encode() + b'\n{"error":"llama runner process has terminated"}\n'))
    assert assemble_response([next(events) for _ in range(3)]).choices[0].parts == (Text("Once"),)
    with pytest.raises(UpstreamFailed, match="has terminated"):
        next(events)
    with pytest.raises(UpstreamFailed, match="has terminated"):
        OLLAMA.read_response(b'{"error":"llama runner process has terminated"}')


def test_an_answer_that_is_not_done_was_cut_off():
    with pytest.raises(StreamTruncated):
        read(line({"content": "Once upon"}))
    reader = OLLAMA.stream_reader()
    list(reader.feed(json.dumps(line({"content": "Once"})).encode() + b"\n" + json.dumps(END).encode()[:-9]))
    with pytest.raises(StreamTruncated):
        list(reader.finish())


def test_a_last_line_without_its_end_is_a_line():
    reader = OLLAMA.stream_reader()
    events = [*reader.feed(json.dumps(line({"content": "Hi."})).encode() + b"\n" + json.dumps(END).encode()), *reader.finish()]
    assert assemble_response(events).choices[0].finish_reason == "stop" and reader.done


def test_what_follows_the_end_is_passed_over():
    assert read(END, line({"content": "more"})).choices == (Choice((), "stop"),)


def test_half_a_surrogate_pair_costs_no_answer():
    raw = json.dumps(line({"content": "HERE"}, done=True)).replace("HERE", "a\\ud83d").encode()
    assert OLLAMA.read_response(raw).choices[0].parts == (Text("a\ufffd"),)


@pytest.mark.parametrize("raw", [b"not json", b"[]", b'{"message": 3}', b'{"message": {"tool_calls": [{}]}}'])
def test_what_is_no_answer_is_garbled(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        OLLAMA.read_response(raw)


def test_a_line_without_end_does_not_fill_our_memory():
    lines = NdjsonLines(limit_bytes=10)
    lines.feed(b"0123456789")
    with pytest.raises(InvalidUpstreamResponse):
        lines.feed(b"0")
