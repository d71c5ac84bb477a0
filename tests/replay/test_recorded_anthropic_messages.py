"""Recorded exchanges with Anthropic: requests, responses, streams and errors; and the responses of Claude on Vertex.

The recordings are not part of this repository; without ../shared/exchanges these tests are skipped.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from providers.canonical.chat import ChatResponse, Opaque, Part, Reasoning, Text, ToolCall, Usage
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import CredentialRefused, InvalidRequest, UpstreamNotFound, UpstreamRejected
from providers.canonical.events import Event, assemble_response, response_events
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, ResponseMeta
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.adapter import Anthropic
from tests.support.case_tables import one_test_per_group

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = AnthropicMessages()
COUNT = AnthropicCountTokens()
META = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)

# Requests that Anthropic refused with a 400, and so do we: the param that our error names.
WRONG_REQUESTS = {
    "anthropic/32-error-400-a": "temperature",
    "anthropic/33-error-400-b": "tools.0.input_schema",
    "anthropic/34-error-400-c": "tools.0.input_schema.type",
}
ERRORS: dict[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused, 404: UpstreamNotFound}
FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
    path: str
    request_body: dict[str, Any]
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def raw(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream, read with no code of providers/."""
        return [json.loads(line.removeprefix("data:")) for line in self.body.splitlines() if line.startswith("data:")]


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted([*FOLDER.glob("anthropic/*.json"), *FOLDER.glob("gcp_vertex_anthropic/*.json")]):
        recorded = json.loads(path.read_text())
        if recorded["fidelity"].startswith("recorded"):
            name = f"{path.parent.name}/{path.stem}"
            path_without_query = recorded["path"].partition("?")[0]
            headers: dict[str, str] = recorded["response_headers"] or {}
            found.append(
                Recording(name, path_without_query, recorded["request_body"], recorded["status"], headers, recorded["response_body"])
            )
    return found


ALL = recordings()
# Requests to Claude on Vertex have the model in the URL, so only their responses are replayed.
REQUESTS = [each for each in ALL if each.path == "/v1/messages"]
COUNTS = [each for each in ALL if each.path.endswith("/count_tokens")]
ERROR_RESPONSES = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
UNSTREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, dict) and each not in COUNTS]


def recording_name(recording: Recording) -> str:
    return recording.name


def host_folder(recording: Recording) -> str:
    return recording.name.partition("/")[0]


def test_every_recording_is_sorted_into_a_test() -> None:
    assert len(ERROR_RESPONSES) + len(STREAMED) + len(UNSTREAMED) + len(COUNTS) == len(ALL) >= 30
    assert WRONG_REQUESTS.keys() <= {each.name for each in REQUESTS}


def parse_request(recording: Recording) -> InboundRequest:
    return DIALECT.parse_request(json.dumps(recording.request_body).encode())


def refusing_policy() -> DropPolicy:
    """Drops nothing: a refused field fails the test."""
    return DropPolicy(lambda _: False, DIALECT.field_names, "a host")


@one_test_per_group(REQUESTS, group=host_folder, name=recording_name)
def test_recorded_request_survives_the_canonical_round_trip(recording: Recording) -> None:
    if recording.name in WRONG_REQUESTS:
        with pytest.raises(InvalidRequest) as refused:
            parse_request(recording)
        assert refused.value.param == WRONG_REQUESTS[recording.name]
        return
    request = parse_request(recording)
    assert (request.model, request.stream) == (recording.request_body["model"], recording.request_body.get("stream", False))
    assert request.output_tokens == recording.request_body["max_tokens"]
    chat, drop_policy = DIALECT.read_request(request.body), refusing_policy()
    rewritten = DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == []
    assert DIALECT.read_request(Body.read(rewritten.write())) == chat
    assert texts_as_blocks(json.loads(rewritten.write())) == texts_as_blocks(
        {key: value for key, value in recording.request_body.items() if key != "stream"}
    )


def texts_as_blocks(node: Any) -> Any:
    """Returns the node with every text as a block, so that both forms of a text compare equal."""
    if isinstance(node, list):
        return [texts_as_blocks(each) for each in node]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(node, dict):
        normalized: dict[str, Any] = {
            key: [{"type": "text", "text": value}] if key in ("content", "system") and isinstance(value, str) else texts_as_blocks(value)
            for key, value in node.items()  # pyright: ignore[reportUnknownVariableType]
        }
        return normalized
    return node


@one_test_per_group(COUNTS, group=host_folder, name=recording_name)
def test_token_count_passes_unchanged(recording: Recording) -> None:
    request = COUNT.parse_request(json.dumps(recording.request_body).encode())
    assert (request.model, request.stream, request.output_tokens) == (recording.request_body["model"], False, 0)
    edited = COUNT.edit_response(recording.raw, META)
    assert json.loads(edited.raw) == recording.body
    assert edited.usage == Usage(0, 0)


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_passes_unchanged_but_for_id_and_model(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, META)
    assert json.loads(edited.raw) == {**recording.body, "id": "msg_" + META.id, "model": META.model}
    assert edited.usage == expected_usage(recording.body["usage"])
    assert edited.finish_reason == FINISH_REASONS[recording.body["stop_reason"]]


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_survives_the_round_trip_also_as_a_stream(recording: Recording) -> None:
    response = DIALECT.read_response(recording.raw)
    assert [summarize_part(part) for part in response.choices[0].parts] == [summarize_block(block) for block in recording.body["content"]]
    assert response.choices[0].finish_reason == FINISH_REASONS[recording.body["stop_reason"]]
    assert response.choices[0].stop_sequence == recording.body["stop_sequence"]
    assert response.usage == expected_usage(recording.body["usage"])
    reread = DIALECT.read_response(DIALECT.write_response(response, META))
    assert comparable_response(reread) == comparable_response(response)
    assert comparable_response(assemble_response(read_stream([write_stream(response)]))) == comparable_response(response)


def comparable_response(response: ChatResponse) -> Any:
    return response.choices, response.usage, response.service_tier


def write_stream(response: ChatResponse) -> bytes:
    writer = DIALECT.stream_writer(META)
    return b"".join([writer.feed(event) for event in response_events(response)]) + writer.finish()


def read_stream(blocks: Iterable[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_passes_unchanged_but_for_id_and_model_however_it_is_chunked(recording: Recording) -> None:
    editor = DIALECT.stream_editor(META)
    before = b"".join([editor.feed(block) for block in random_blocks(recording)])
    assert b"message_stop" not in before and b"event: message_delta" not in before
    out = before + editor.finish()
    sent_events = decode_events(out)
    assert [each["type"] for each in sent_events] == [each["type"] for each in recording.events]
    start: dict[str, Any] = recording.events[0]["message"]
    assert sent_events[0] == {**recording.events[0], "message": {**start, "id": "msg_" + META.id, "model": META.model}}
    assert sent_events[1:] == recording.events[1:]
    end: dict[str, Any] = recording.events[-2]
    assert editor.usage == expected_usage({**start["usage"], **end["usage"]})
    assert editor.finish_reason == FINISH_REASONS[end["delta"]["stop_reason"]]
    assert editor.done


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_reads_the_same_before_and_after_the_editor(recording: Recording) -> None:
    editor = DIALECT.stream_editor(META)
    out = editor.feed(recording.raw) + editor.finish()
    for blocks in (random_blocks(recording), [out]):
        response = assemble_response(read_stream(blocks))
        assert [summarize_part(part) for part in response.choices[0].parts] == assemble_blocks(recording.events)
        assert response.choices[0].finish_reason == editor.finish_reason
        assert response.usage == editor.usage
        assert comparable_response(assemble_response(read_stream([write_stream(response)]))) == comparable_response(response)


@one_test_per_group(ERROR_RESPONSES, group=host_folder, name=recording_name)
def test_recorded_error_is_mapped_and_keeps_its_message(recording: Recording) -> None:
    error = Anthropic("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    assert error.message.endswith(mask_credentials(recording.body["error"]["message"]))
    written_error = json.loads(DIALECT.write_error(error))
    assert written_error["error"]["message"] == error.message
    # A refused credential of ours is not the caller's error.
    assert written_error["error"]["type"] == ("api_error" if recording.status == 401 else recording.body["error"]["type"])


def random_blocks(recording: Recording) -> list[bytes]:
    """The bytes cut at random places, the same in every run."""
    raw = recording.raw
    rng = random.Random(recording.name)
    cuts = sorted(rng.randrange(len(raw)) for _ in range(min(200, len(raw) // 10)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def decode_events(out: bytes) -> list[dict[str, Any]]:
    """The events; each must have the name that is in its data, as the official SDKs require."""
    *frames, remainder = out.split(b"\n\n")
    assert remainder == b""
    events: list[dict[str, Any]] = []
    for frame in frames:
        head, data = frame.split(b"\n")
        events.append(json.loads(data.removeprefix(b"data: ")))
        assert head == b"event: " + events[-1]["type"].encode()
    return events


def expected_usage(usage: dict[str, Any]) -> Usage:
    cached, cache_written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    details: dict[str, Any] = usage.get("output_tokens_details") or {}
    input_tokens = usage["input_tokens"] + (cached or 0) + (cache_written or 0)
    cache_creation: dict[str, Any] = usage.get("cache_creation") or {}
    return Usage(
        input_tokens,
        usage["output_tokens"],
        cached,
        details.get("thinking_tokens"),
        cache_written,
        cache_creation.get("ephemeral_1h_input_tokens"),
    )


def summarize_part(part: Part) -> Any:
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


def summarize_block(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return "text", block["text"]
        case "thinking":
            return "thinking", block["thinking"], block["signature"]
        case "tool_use":
            return "tool_use", block["id"], block["name"], block["input"]
        case _:
            return block


def assemble_blocks(events: list[dict[str, Any]]) -> list[Any]:
    """The blocks that the official SDKs assemble from these events."""
    blocks: list[dict[str, Any]] = []
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            case "content_block_delta":
                delta: dict[str, str] = event["delta"]
                block_so_far = blocks[int(event["index"])]
                for key, into in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json"), ("signature", "signature")):
                    if key in delta:
                        block_so_far[into] += delta[key]
            case _:
                pass
    for block in blocks:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments or "{}")
    return [summarize_block(block) for block in blocks]
