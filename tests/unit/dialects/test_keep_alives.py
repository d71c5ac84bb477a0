"""Keep-alives of each dialect: frames that clients pass over, or count as life, whatever was sent before."""

import json
from typing import Any

import pytest

from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses import OpenAIResponses

META = ResponseMeta("0198c0de", "episode", "model", 1, True, {"instructions": b'"Be\nbrief."'})
IDENTITY = {name for name in DIALECTS if name != "openai_responses"}


def read_events(frames: bytes) -> list[dict[str, Any]]:
    assert frames.endswith(b"\n\n")
    events: list[dict[str, Any]] = []
    for frame in frames.removesuffix(b"\n\n").split(b"\n\n"):
        name, data = frame.split(b"\n")
        events.append(json.loads(data.removeprefix(b"data: ")))
        assert name == b"event: " + events[-1]["type"].encode()
    return events


def frame(kind: str, number: int, **more: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **more})}\n\n".encode()


@pytest.mark.parametrize("name", sorted(IDENTITY))
def test_constant_keep_alive_is_a_whole_frame_and_changes_nothing_behind_it(name: str) -> None:
    keep_alive = DIALECTS[name].keep_alive(META)
    expected = b'event: ping\ndata: {"type": "ping"}\n\n' if name == "anthropic_messages" else b": keep-alive\n\n"
    assert keep_alive.write(None) == keep_alive.write(b"data: {}\n\n") == expected
    assert not keep_alive.edits_frames and keep_alive.edit(b"data: {}\n\n") == b"data: {}\n\n"


def test_responses_begin_with_a_keep_alive_and_are_created_once() -> None:
    keep_alive = OpenAIResponses().keep_alive(META)
    sent = keep_alive.write(None) + keep_alive.write(None)
    sent += keep_alive.edit(frame("response.created", 0, response={}) + frame("response.in_progress", 1, response={}))
    sent += keep_alive.edit(frame("response.output_text.delta", 2, delta='"sequence_number":7'))
    sent += keep_alive.write(b"")
    sent += keep_alive.edit(frame("response.completed", 3, response={}))
    events = read_events(sent)
    in_progress = "response.in_progress"
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress", "in_progress", "in_progress", "output_text.delta", "in_progress", "completed")
    ]
    assert [event["sequence_number"] for event in events] == list(range(7))
    assert events[4]["delta"] == '"sequence_number":7'
    assert {event["response"]["id"] for event in events[:3]} == {"resp_0198c0de"} and events[2]["type"] == in_progress


def test_responses_repeat_no_field_so_long_that_others_would_wait_for_it() -> None:
    sent = {"instructions": "Be brief.\n" * 500_000, "tools": [{"type": "function", "name": "f" * 20_000}], "user": "ada", "top_p": 0.5}
    for body in (Body.read(json.dumps(sent).encode()), sent):
        keep_alive = OpenAIResponses().keep_alive(ResponseMeta("0198c0de", "episode", "model", 1, True, body))
        for frames in (keep_alive.write(None), keep_alive.write(None)):
            assert len(frames) < 4_000
            for event in read_events(frames):
                head = event["response"]
                assert (head["instructions"], head["tools"], head["user"], head["top_p"]) == (None, [], "ada", 0.5)


def test_responses_go_on_after_the_number_of_the_last_event_that_was_sent() -> None:
    keep_alive = OpenAIResponses().keep_alive(META)
    last = frame("response.created", 7, response={}) + frame("response.output_item.added", 8, item={"sequence_number": 99})
    (event,) = read_events(keep_alive.write(last))
    assert (event["type"], event["sequence_number"]) == ("response.in_progress", 9)
    assert [each["sequence_number"] for each in read_events(keep_alive.edit(last))] == [10, 11], "an engine may say it twice"


def test_responses_end_with_an_error_whose_number_goes_on() -> None:
    keep_alive, dialect = OpenAIResponses().keep_alive(META), OpenAIResponses()
    keep_alive.write(None)
    events = read_events(keep_alive.edit(dialect.write_error_frame(Unsupported("No."))))
    assert events[-1]["sequence_number"] == 1 + len(events) and "No." in json.dumps(events[-1])


@pytest.mark.parametrize("frames", [b"data: [DONE]\n\n", b": comment\n\n", b"data: {broken\n\n", b'data: {"no": "type"}\n\n'])
def test_responses_leave_what_is_no_event_as_it_is(frames: bytes) -> None:
    keep_alive = OpenAIResponses().keep_alive(META)
    keep_alive.write(None)
    assert keep_alive.edit(frames) == frames


def test_stream_that_fails_after_keep_alives_alone_ends_with_response_failed():
    keep_alive = DIALECTS["openai_responses"].keep_alive(META)
    sent = keep_alive.write(None) + keep_alive.edit(keep_alive.write_failure(Unsupported("No.")))
    events = read_events(sent)
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2]
    assert events[-1]["response"]["error"] == {"code": "invalid_prompt", "message": "No."}
