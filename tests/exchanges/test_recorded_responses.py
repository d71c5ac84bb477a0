"""Real recordings of hosts that speak OpenAI's Responses, each played whole: its request, and its answer, stream or error.

They belong to others and are not part of this project: without the folder beside it, nothing here is tried, and that is said.
"""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw, Struct
from msgspec.structs import replace
from openai.types.responses import Response

from providers.adapters.provider import Provider
from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import CredentialRefused, UpstreamRejected
from providers.canonical.events import assemble_response, response_events
from providers.canonical.upstream_errors import mask_credentials
from providers.dialect import DropPolicy, ResponseMeta
from providers.dialects.openai_responses import (
    OpenAIResponses,
    final_response,
    list_input_items,
    output_items,
    prepend_items,
    write_input_items,
)

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = OpenAIResponses()
STAMP = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)
OURS = frozenset({"id", "model", "previous_response_id", "store"})
ERRORS: Mapping[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused}
# Times with a fraction, which strict clients refuse, are told without.
FRACTIONS = {"aws_bedrock/29-mantle-responses"}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
    asked: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def raw(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def events(self) -> list[dict[str, Any]]:
        """Read plainly, without any of the code that is tried here."""
        lines = [line.removeprefix("data:").strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def response(self) -> dict[str, Any]:
        return self.events[-1]["response"] if isinstance(self.body, str) else self.body

    @property
    def stamp(self) -> ResponseMeta:
        return replace(STAMP, request_body=DIALECT.parse_request(json.dumps(self.asked).encode()).body)


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted(FOLDER.glob("*/*.json")):
        told = json.loads(path.read_text())
        if told["fidelity"].startswith("recorded") and told["path"].partition("?")[0].endswith("/responses"):
            name = f"{path.parent.name}/{path.stem}"
            found.append(Recording(name, told["request_body"], told["status"], told["response_headers"] or {}, told["response_body"]))
    return found


ALL = recordings()
ERRONEOUS = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
WHOLE = [each for each in ALL if each.status == 200 and isinstance(each.body, dict)]


def name(recording: object) -> str:
    return recording.name if isinstance(recording, Recording) else str(recording)


def nothing(_: str) -> bool:
    return False


def test_every_recording_is_played() -> None:
    assert len(ERRONEOUS) + len(STREAMED) + len(WHOLE) == len(ALL) >= 17
    assert {each.name for each in ALL} >= FRACTIONS


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_the_request_is_an_ask_and_keeps_its_meaning(recording: Recording) -> None:
    ask = DIALECT.parse_request(json.dumps(recording.asked).encode())
    assert (ask.model, ask.stream) == (recording.asked["model"], recording.asked.get("stream", False))
    chat = DIALECT.read_request(ask.body)
    assert chat.extra == {}
    concessions = DropPolicy(nothing, DIALECT.field_names, "a target")
    again = DIALECT.parse_request(DIALECT.write_request(chat, concessions).write())
    assert DIALECT.read_request(again.body) == replace(chat, store=False)
    assert concessions.dropped == []


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_a_request_goes_on_as_it_came_but_for_what_the_gateway_keeps(recording: Recording) -> None:
    body = DIALECT.parse_request(json.dumps(recording.asked).encode()).body
    DIALECT.prepare_upstream_body(body, recording.asked.get("stream", False), tell_usage=True)
    kept = {"store": False, "stream": recording.asked.get("stream", False), "include": ["reasoning.encrypted_content"]}
    assert json.loads(body.write()) == {**recording.asked, **kept}


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_passes_untouched(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, recording.stamp)
    told = json.loads(edited.raw)
    is_the_callers(told, recording)
    Response.model_validate(told, strict=True)
    assert edited.usage == counted(recording.response["usage"])
    assert edited.finish_reason == finish_reason(recording.response)


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_keeps_its_meaning(recording: Recording) -> None:
    answer = DIALECT.read_response(recording.raw)
    assert answer.choices[0].parts == parts(recording.response)
    assert answer.choices[0].finish_reason == finish_reason(recording.response)
    assert answer.usage == counted(recording.response["usage"])
    rewritten = DIALECT.write_response(answer, recording.stamp)
    Response.model_validate_json(rewritten, strict=True)
    assert DIALECT.read_response(rewritten).choices == answer.choices


@pytest.mark.parametrize("recording", [*WHOLE, *STREAMED], ids=name)
def test_its_stream_says_what_the_whole_answer_does(recording: Recording) -> None:
    answer = DIALECT.read_response(json.dumps(recording.response).encode())
    writer = DIALECT.stream_writer(recording.stamp)
    out = b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish()
    reader = DIALECT.stream_reader()
    assert assemble_response([*reader.feed(out), *reader.finish()]).choices == answer.choices


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_passes_untouched(recording: Recording) -> None:
    editor = DIALECT.stream_editor(recording.stamp)
    before = b"".join([editor.feed(block) for block in split(recording)])
    last = editor.finish()
    told = events_of(before + last)
    assert len(events_of(last)) == 1
    assert len(told) == len(recording.events)
    for event, original in zip(told, recording.events, strict=True):
        if "response" in event:
            is_the_callers(event.pop("response"), recording, original.pop("response"))
        assert event == original
    assert editor.usage == counted(recording.response["usage"])
    assert editor.finish_reason == finish_reason(recording.response)


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_is_read_as_its_final_answer(recording: Recording) -> None:
    editor = DIALECT.stream_editor(recording.stamp)
    out = editor.feed(recording.raw) + editor.finish()
    final = final_response(out)
    assert final is not None
    usage = counted(recording.response["usage"])
    for blocks, expected in ((split(recording), usage), ([out], replace(usage, cache_written=0))):
        reader = DIALECT.stream_reader()
        answer = assemble_response([*(event for block in blocks for event in reader.feed(block)), *reader.finish()])
        assert answer.choices == DIALECT.read_response(final).choices
        assert answer.choices[0].parts == parts(recording.response)
        assert answer.usage == expected


@pytest.mark.parametrize("recording", [*WHOLE, *STREAMED], ids=name)
def test_an_answer_can_be_gone_on_from(recording: Recording) -> None:
    asked = recording.stamp.request_body
    earlier = [*list_input_items(asked), *output_items(json.dumps(recording.response).encode())]
    body = DIALECT.parse_request(b'{"model": "m", "input": "and?", "previous_response_id": "resp_1"}').body
    prepend_items(body, earlier)
    chat = DIALECT.read_request(DIALECT.parse_request(body.write()).body)
    said = tuple(part for part in chat.messages[-2].parts if not isinstance(part, Opaque))
    assert chat.messages[-2].role == "assistant"
    assert [part.text for part in said if isinstance(part, Text)] == [
        part.text for part in parts(recording.response) if isinstance(part, Text)
    ]
    assert all(each["id"] for each in write_input_items(earlier, "resp_1"))


@pytest.mark.parametrize("recording", ERRONEOUS, ids=name)
def test_an_error_becomes_ours_and_keeps_its_message(recording: Recording) -> None:
    error = Provider("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    inner: Any = recording.body.get("error", recording.body)
    message: str = inner if isinstance(inner, str) else inner["message"]
    assert error.message.endswith(mask_credentials(message))
    told = json.loads(DIALECT.write_error(error))["error"]
    assert (told["message"], told["code"]) == (error.message, error.status)


def is_the_callers(told: dict[str, Any], recording: Recording, original: dict[str, Any] | None = None) -> None:
    """Ours replaced, and what a host left out filled in; all that it said is there."""
    theirs = recording.response if original is None else original
    for key, value in theirs.items():
        match key:
            case "usage" if value is not None:
                assert {**told[key], "input_tokens_details": value["input_tokens_details"]} == value
                assert told[key]["input_tokens_details"] == {"cache_write_tokens": 0, **value["input_tokens_details"]}
            case "created_at" if recording.name in FRACTIONS:
                assert (told[key], type(told[key])) == (value, int)
            case _ if key not in OURS:
                assert told[key] == value, key
            case _:
                pass
    stored = recording.asked.get("store", True)
    assert [told[key] for key in sorted(OURS)] == [f"resp_{STAMP.id}", STAMP.model, None, stored]


def finish_reason(response: dict[str, Any]) -> str:
    assert response["status"] == "completed"
    return "tool_calls" if any(item["type"] == "function_call" for item in response["output"]) else "stop"


def parts(response: dict[str, Any]) -> tuple[Part, ...]:
    """Read plainly."""
    said: list[Part] = []
    for item in response["output"]:
        match item["type"]:
            case "message":
                said += [
                    Refusal(each["refusal"])
                    if each["type"] == "refusal"
                    else Text(each["text"], tuple(citation(annotation) for annotation in each["annotations"]))
                    for each in item["content"]
                ]
            case "reasoning":
                text = "\n\n".join(each["text"] for each in item.get("content") or item["summary"])
                sealed = item.get("encrypted_content")
                if text or sealed:
                    said.append(Reasoning(text, OpaqueState("openai_responses", sealed) if sealed else None))
            case "function_call":
                said.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
            case _:
                said.append(Opaque("openai_responses", raw(item)))
    return tuple(said)


def citation(told: dict[str, Any]) -> Citation:
    return Citation("openai_responses", raw(told), told["url"], told["title"], None, told["start_index"], told["end_index"])


def raw(told: dict[str, Any]) -> Raw:
    return Raw(json.dumps(told).encode())


def counted(usage: dict[str, Any]) -> Usage:
    into, out = usage["input_tokens_details"], usage["output_tokens_details"]
    return Usage(
        usage["input_tokens"], usage["output_tokens"], into["cached_tokens"], out["reasoning_tokens"], into.get("cache_write_tokens")
    )


def split(recording: Recording) -> list[bytes]:
    """Cut anywhere; the same places in every run."""
    whole = recording.raw
    chance = random.Random(recording.name)
    places = sorted(chance.randrange(len(whole)) for _ in range(min(200, len(whole) // 10)))
    return [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]


def events_of(out: bytes) -> list[dict[str, Any]]:
    *frames, rest = out.split(b"\n\n")
    assert rest == b""
    return [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]
