"""Real recordings of Anthropic, each played whole: its request, and its answer, stream or error; and the answers of Claude on Vertex.

They belong to others and are not part of this project: without the folder beside it, nothing here is tried, and that is said.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from providers.canonical.chat import ChatResponse, Opaque, Part, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import CredentialRefused, InvalidRequest, UpstreamNotFound, UpstreamRejected
from providers.canonical.events import Event, assemble_response, response_events
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import mask_credentials
from providers.dialect import DropPolicy, InboundRequest, ResponseMeta
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.hosted.anthropic.adapter import Anthropic

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = AnthropicMessages()
COUNT = AnthropicCountTokens()
STAMP = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)

# Requests that are wrong by themselves, as Anthropic found too: where we say the fault is.
WRONG_REQUESTS = {
    "anthropic/32-error-400-a": "temperature",
    "anthropic/33-error-400-b": "tools.0.input_schema",
    "anthropic/34-error-400-c": "tools.0.input_schema.type",
}
ERRORS: dict[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused, 404: UpstreamNotFound}
REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
    path: str
    asked: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def raw(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def told(self) -> list[dict[str, Any]]:
        """The events of a stream, read plainly, without any of the code that is tried here."""
        return [json.loads(line.removeprefix("data:")) for line in self.body.splitlines() if line.startswith("data:")]


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted([*FOLDER.glob("anthropic/*.json"), *FOLDER.glob("gcp_vertex_anthropic/*.json")]):
        told = json.loads(path.read_text())
        if told["fidelity"].startswith("recorded"):
            name = f"{path.parent.name}/{path.stem}"
            place = told["path"].partition("?")[0]
            headers: dict[str, str] = told["response_headers"] or {}
            found.append(Recording(name, place, told["request_body"], told["status"], headers, told["response_body"]))
    return found


ALL = recordings()
# Claude on Vertex is asked without a model, which stands in the address: only its answers are played.
ASKED = [each for each in ALL if each.path == "/v1/messages"]
COUNTS = [each for each in ALL if each.path.endswith("/count_tokens")]
ERRONEOUS = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
WHOLE = [each for each in ALL if each.status == 200 and isinstance(each.body, dict) and each not in COUNTS]


def name(recording: object) -> str:
    return recording.name if isinstance(recording, Recording) else str(recording)


def test_every_recording_is_played() -> None:
    assert len(ERRONEOUS) + len(STREAMED) + len(WHOLE) + len(COUNTS) == len(ALL) >= 30
    assert WRONG_REQUESTS.keys() <= {each.name for each in ASKED}


def opened(recording: Recording) -> InboundRequest:
    return DIALECT.parse_request(json.dumps(recording.asked).encode())


def conceding() -> DropPolicy:
    """Lets nothing go: whatever is refused fails the test."""
    return DropPolicy(lambda _: False, DIALECT.field_names, "a host")


@pytest.mark.parametrize("recording", ASKED, ids=name)
def test_the_request_is_an_ask_and_means_what_it_says(recording: Recording) -> None:
    if recording.name in WRONG_REQUESTS:
        with pytest.raises(InvalidRequest) as refused:
            opened(recording)
        assert refused.value.param == WRONG_REQUESTS[recording.name]
        return
    ask = opened(recording)
    assert (ask.model, ask.stream) == (recording.asked["model"], recording.asked.get("stream", False))
    assert ask.output_tokens == recording.asked["max_tokens"]
    chat, conceded = DIALECT.read_request(ask.body), conceding()
    written = DIALECT.write_request(chat, conceded)
    assert conceded.dropped == []
    assert DIALECT.read_request(Body.read(written.write())) == chat
    assert plain(json.loads(written.write())) == plain({key: value for key, value in recording.asked.items() if key != "stream"})


def plain(said: Any) -> Any:
    """With every text a block, so that both ways to say one compare equal."""
    if isinstance(said, list):
        return [plain(each) for each in said]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(said, dict):
        told: dict[str, Any] = {
            key: [{"type": "text", "text": value}] if key in ("content", "system") and isinstance(value, str) else plain(value)
            for key, value in said.items()  # pyright: ignore[reportUnknownVariableType]
        }
        return told
    return said


@pytest.mark.parametrize("recording", COUNTS, ids=name)
def test_a_count_passes_untouched(recording: Recording) -> None:
    ask = COUNT.parse_request(json.dumps(recording.asked).encode())
    assert (ask.model, ask.stream, ask.output_tokens) == (recording.asked["model"], False, 0)
    edited = COUNT.edit_response(recording.raw, STAMP)
    assert json.loads(edited.raw) == recording.body
    assert edited.usage == Usage(0, 0)


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_passes_untouched(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, STAMP)
    assert json.loads(edited.raw) == {**recording.body, "id": "msg_" + STAMP.id, "model": STAMP.model}
    assert edited.usage == counted(recording.body["usage"])
    assert edited.finish_reason == REASONS[recording.body["stop_reason"]]


@pytest.mark.parametrize("recording", WHOLE, ids=name)
def test_a_whole_answer_is_read_and_streams_as_it_reads(recording: Recording) -> None:
    answer = DIALECT.read_response(recording.raw)
    assert [summed(part) for part in answer.choices[0].parts] == [summary(block) for block in recording.body["content"]]
    assert answer.choices[0].finish_reason == REASONS[recording.body["stop_reason"]]
    assert answer.choices[0].stop_sequence == recording.body["stop_sequence"]
    assert answer.usage == counted(recording.body["usage"])
    again = DIALECT.read_response(DIALECT.write_response(answer, STAMP))
    assert named(again) == named(answer)
    assert named(assemble_response(read([written(answer)]))) == named(answer)


def named(answer: ChatResponse) -> Any:
    return answer.choices, answer.usage, answer.service_tier


def written(answer: ChatResponse) -> bytes:
    writer = DIALECT.stream_writer(STAMP)
    return b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish()


def read(blocks: Iterable[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_passes_untouched_however_it_is_cut(recording: Recording) -> None:
    editor = DIALECT.stream_editor(STAMP)
    before = b"".join([editor.feed(block) for block in split(recording)])
    assert b"message_stop" not in before and b"event: message_delta" not in before
    out = before + editor.finish()
    told = events_in(out)
    assert [each["type"] for each in told] == [each["type"] for each in recording.told]
    start: dict[str, Any] = recording.told[0]["message"]
    assert told[0] == {**recording.told[0], "message": {**start, "id": "msg_" + STAMP.id, "model": STAMP.model}}
    assert told[1:] == recording.told[1:]
    end: dict[str, Any] = recording.told[-2]
    assert editor.usage == counted({**start["usage"], **end["usage"]})
    assert editor.finish_reason == REASONS[end["delta"]["stop_reason"]]
    assert editor.done


@pytest.mark.parametrize("recording", STREAMED, ids=name)
def test_a_stream_is_read_as_the_editor_tells_it(recording: Recording) -> None:
    editor = DIALECT.stream_editor(STAMP)
    out = editor.feed(recording.raw) + editor.finish()
    for blocks in (split(recording), [out]):
        answer = assemble_response(read(blocks))
        assert [summed(part) for part in answer.choices[0].parts] == streamed(recording.told)
        assert answer.choices[0].finish_reason == editor.finish_reason
        assert answer.usage == editor.usage
        assert named(assemble_response(read([written(answer)]))) == named(answer)


@pytest.mark.parametrize("recording", ERRONEOUS, ids=name)
def test_an_error_becomes_ours_and_keeps_its_message(recording: Recording) -> None:
    error = Anthropic("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    assert error.message.endswith(mask_credentials(recording.body["error"]["message"]))
    told = json.loads(DIALECT.write_error(error))
    assert told["error"]["message"] == error.message
    # That our own credential was refused is no fault of the caller's.
    assert told["error"]["type"] == ("api_error" if recording.status == 401 else recording.body["error"]["type"])


def split(recording: Recording) -> list[bytes]:
    """Cut anywhere; the same places in every run."""
    raw = recording.raw
    chance = random.Random(recording.name)
    places = sorted(chance.randrange(len(raw)) for _ in range(min(200, len(raw) // 10)))
    return [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]


def events_in(out: bytes) -> list[dict[str, Any]]:
    """Each with the name that its data says, as the official SDKs need it."""
    *frames, rest = out.split(b"\n\n")
    assert rest == b""
    told: list[dict[str, Any]] = []
    for frame in frames:
        head, data = frame.split(b"\n")
        told.append(json.loads(data.removeprefix(b"data: ")))
        assert head == b"event: " + told[-1]["type"].encode()
    return told


def counted(usage: dict[str, Any]) -> Usage:
    cached, made = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    details: dict[str, Any] = usage.get("output_tokens_details") or {}
    whole = usage["input_tokens"] + (cached or 0) + (made or 0)
    kept: dict[str, Any] = usage.get("cache_creation") or {}
    return Usage(whole, usage["output_tokens"], cached, details.get("thinking_tokens"), made, kept.get("ephemeral_1h_input_tokens"))


def summed(part: Part) -> Any:
    match part:
        case Text():
            return "text", part.text
        case Reasoning():
            return "thinking", part.text, part.opaque_state.data if part.opaque_state else ""
        case ToolCall():
            return "tool_use", part.id, part.name, json.loads(part.arguments)
        case Opaque():
            return json.loads(bytes(part.raw))
        case _:
            raise AssertionError(part)


def summary(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return "text", block["text"]
        case "thinking":
            return "thinking", block["thinking"], block["signature"]
        case "tool_use":
            return "tool_use", block["id"], block["name"], block["input"]
        case _:
            return block


def streamed(events: list[dict[str, Any]]) -> list[Any]:
    """What the official SDKs would put together of these events."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                delta: dict[str, str] = event["delta"]
                grown = blocks[int(event["index"])]
                for key, into in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json"), ("signature", "signature")):
                    if key in delta:
                        grown[into] += delta[key]
            case _:
                pass
    for block in blocks:
        written = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written or "{}")
    return [summary(block) for block in blocks]
