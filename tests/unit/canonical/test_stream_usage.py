"""Fields are added to the usage of a response or the last one of a stream, and to nothing that only looks like one."""

import json
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.stream_usage import add_to_last_usage, add_to_usage

ADDED = {"narthex_cost_usd": Raw(b"0.000120")}


def frame(body: Any, event: str = "") -> bytes:
    return (f"event: {event}\n" if event else "").encode() + b"data: " + json.dumps(body).encode() + b"\n\n"


def bodies(frames: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in frames.split(b"\n") if line.startswith(b"data: {")]


CHAT = frame({"choices": [{"delta": {"content": 'say "usage": {} data: {}'}}], "usage": {"prompt_tokens": 1}})
DELTA = frame({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}, "message_delta")
STOP = frame({"type": "message_stop"}, "message_stop")
TOOLS: list[Any] = [{"type": "function", "parameters": {"properties": {"usage": {"type": "string"}}}}]
COMPLETED = frame({"type": "response.completed", "response": {"tools": TOOLS, "usage": {"input_tokens": 3}}}, "response.completed")


@pytest.mark.parametrize(
    ("frames", "index", "path"),
    [
        (CHAT + b"data: [DONE]\n\n", 0, ("usage",)),
        (DELTA + STOP, 0, ("usage",)),
        (frame({"usage": {"output_tokens": 1}}) + DELTA + STOP, 1, ("usage",)),
        (COMPLETED, 0, ("response", "usage")),
    ],
    ids=["chat", "messages", "last-of-two", "responses"],
)
def test_cost_is_added_to_the_last_usage(frames: bytes, index: int, path: tuple[str, ...]):
    edited = bodies(add_to_last_usage(frames, ADDED))
    usage = edited[index]
    for key in path:
        usage = usage[key]
    assert usage.pop("narthex_cost_usd") == 0.00012
    assert edited == bodies(frames)
    assert add_to_last_usage(frames, ADDED).count(b"\n\n") == frames.count(b"\n\n")


@pytest.mark.parametrize("frames", [b"", b"data: [DONE]\n\n", STOP, frame({"choices": [], "usage": None}), b'data: {"usage": {"a"'])
def test_stream_without_usage_is_unchanged(frames: bytes):
    assert add_to_last_usage(frames, ADDED) == frames


def test_fields_are_added_to_the_usage_of_a_whole_response():
    response = b'{"content":[{"text":"\\"usage\\": {}"}],"usage":{"input_tokens":3}}'
    assert add_to_usage(response, ADDED) == response[:-2] + b',"narthex_cost_usd":0.000120}}'
    assert add_to_usage(b'{"content":[]}', ADDED) == b'{"content":[]}'
