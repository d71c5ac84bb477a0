"""Recorded exchanges with hosts that speak OpenAI Responses: requests, responses, streams and errors.

The recordings are not part of this repository; without ../shared/exchanges these tests are skipped.
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

from providers.adapters.openai_compatible import OpenAICompatible
from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import CredentialRefused, UpstreamRejected
from providers.canonical.events import assemble_response, response_events
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses import (
    OpenAIResponses,
    final_response,
    list_input_items,
    output_items,
    prepend_items,
    write_input_items,
)
from providers.drop_policy import DropPolicy
from tests.conformance.strict_shapes import response_errors
from tests.support.case_tables import one_test_per_group
from tests.support.strategies.host_costs import expected_host_cost

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)

DIALECT = OpenAIResponses()
META = ResponseMeta(
    "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, wants_usage=True
)
REPLACED_FIELDS = frozenset({"id", "model", "previous_response_id", "store"})
ERRORS: Mapping[int, type[Exception]] = {400: UpstreamRejected, 401: CredentialRefused}
# Hosts that send fractional times, which the gateway truncates because strict clients refuse them.
FRACTIONAL_TIMES = {"aws_bedrock/29-mantle-responses"}


class Recording(Struct, frozen=True):
    """One recorded exchange. `body` is JSON, or the text of a stream."""

    name: str
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
        lines = [line.removeprefix("data:").strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def response(self) -> dict[str, Any]:
        return self.events[-1]["response"] if isinstance(self.body, str) else self.body

    @property
    def meta(self) -> ResponseMeta:
        return replace(META, request_body=DIALECT.parse_request(json.dumps(self.request_body).encode()).body)


def recordings() -> list[Recording]:
    found: list[Recording] = []
    for path in sorted(FOLDER.glob("*/*.json")):
        recorded = json.loads(path.read_text())
        if recorded["fidelity"].startswith("recorded") and recorded["path"].partition("?")[0].endswith("/responses"):
            name = f"{path.parent.name}/{path.stem}"
            found.append(
                Recording(name, recorded["request_body"], recorded["status"], recorded["response_headers"] or {}, recorded["response_body"])
            )
    return found


ALL = recordings()
ERROR_RESPONSES = [each for each in ALL if each.status != 200]
STREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, str)]
UNSTREAMED = [each for each in ALL if each.status == 200 and isinstance(each.body, dict)]


def recording_name(recording: Recording) -> str:
    return recording.name


def host_folder(recording: Recording) -> str:
    return recording.name.partition("/")[0]


def drop_nothing(_: str) -> bool:
    return False


def test_every_recording_is_sorted_into_a_test() -> None:
    assert len(ERROR_RESPONSES) + len(STREAMED) + len(UNSTREAMED) == len(ALL) >= 17
    assert {each.name for each in ALL} >= FRACTIONAL_TIMES


@one_test_per_group(ALL, group=host_folder, name=recording_name)
def test_recorded_request_survives_the_canonical_round_trip(recording: Recording) -> None:
    request = DIALECT.parse_request(json.dumps(recording.request_body).encode())
    assert (request.model, request.stream) == (recording.request_body["model"], recording.request_body.get("stream", False))
    chat = DIALECT.read_request(request.body)
    assert chat.extra == {}
    drop_policy = DropPolicy(drop_nothing, DIALECT.field_names, "a target")
    reread = DIALECT.parse_request(DIALECT.write_request(chat, drop_policy).write())
    assert DIALECT.read_request(reread.body) == replace(chat, store=False)
    assert drop_policy.dropped == []


@one_test_per_group(ALL, group=host_folder, name=recording_name)
def test_recorded_request_is_forwarded_unchanged_but_for_store_stream_and_include(recording: Recording) -> None:
    body = DIALECT.parse_request(json.dumps(recording.request_body).encode()).body
    DIALECT.prepare_upstream_body(body, recording.request_body.get("stream", False), include_usage=True)
    kept = {"store": False, "stream": recording.request_body.get("stream", False), "include": ["reasoning.encrypted_content"]}
    assert json.loads(body.write()) == {**recording.request_body, **kept}


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_passes_unchanged_but_for_known_fields(recording: Recording) -> None:
    edited = DIALECT.edit_response(recording.raw, recording.meta)
    response_body = json.loads(edited.raw)
    assert_only_known_fields_replaced(response_body, recording)
    Response.model_validate(response_body, strict=True)
    assert edited.usage == expected_usage(recording.response["usage"])
    assert edited.finish_reason == finish_reason(recording.response)


@one_test_per_group(UNSTREAMED, group=host_folder, name=recording_name)
def test_unstreamed_response_survives_the_canonical_round_trip(recording: Recording) -> None:
    response = DIALECT.read_response(recording.raw)
    assert response.choices[0].parts == expected_parts(recording.response)
    assert response.choices[0].finish_reason == finish_reason(recording.response)
    assert response.usage == expected_usage(recording.response["usage"])
    rewritten = DIALECT.write_response(response, recording.meta)
    Response.model_validate_json(rewritten, strict=True)
    assert DIALECT.read_response(rewritten).choices == response.choices


@one_test_per_group([*UNSTREAMED, *STREAMED], group=host_folder, name=recording_name)
def test_response_written_as_a_stream_reads_the_same(recording: Recording) -> None:
    response = DIALECT.read_response(json.dumps(recording.response).encode())
    writer = DIALECT.stream_writer(recording.meta)
    out = b"".join([writer.feed(event) for event in response_events(response)]) + writer.finish()
    reader = DIALECT.stream_reader()
    assert assemble_response([*reader.feed(out), *reader.finish()]).choices == response.choices


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_passes_unchanged_but_for_known_fields(recording: Recording) -> None:
    editor = DIALECT.stream_editor(recording.meta)
    before = b"".join([editor.feed(block) for block in random_blocks(recording)])
    last = editor.finish()
    sent_events = decode_events(before + last)
    assert len(decode_events(last)) == 1
    assert len(sent_events) == len(recording.events)
    for event, original in zip(sent_events, recording.events, strict=True):
        if "response" in event:
            assert_only_known_fields_replaced(event.pop("response"), recording, original.pop("response"))
        if event["type"] == "response.function_call_arguments.done":
            original = {"name": event["name"], **original}  # xAI leaves it out
        assert event == original
    assert response_errors("openai_responses", before + last, streamed=True, written_by_engine=True) == []
    assert editor.usage == expected_usage(recording.response["usage"])
    assert editor.finish_reason == finish_reason(recording.response)


@one_test_per_group(STREAMED, group=host_folder, name=recording_name)
def test_stream_reads_as_the_response_of_its_last_event(recording: Recording) -> None:
    editor = DIALECT.stream_editor(recording.meta)
    out = editor.feed(recording.raw) + editor.finish()
    final = final_response(out)
    assert final is not None
    usage = expected_usage(recording.response["usage"])
    for blocks, expected in ((random_blocks(recording), usage), ([out], replace(usage, cache_written=0))):
        reader = DIALECT.stream_reader()
        response = assemble_response([*(event for block in blocks for event in reader.feed(block)), *reader.finish()])
        assert response.choices == DIALECT.read_response(final).choices
        assert response.choices[0].parts == expected_parts(recording.response)
        assert response.usage == expected


@one_test_per_group([*UNSTREAMED, *STREAMED], group=host_folder, name=recording_name)
def test_stored_response_is_resumed_with_previous_response_id(recording: Recording) -> None:
    request_body = recording.meta.request_body
    earlier = [*list_input_items(request_body), *output_items(json.dumps(recording.response).encode())]
    body = DIALECT.parse_request(b'{"model": "m", "input": "and?", "previous_response_id": "resp_1"}').body
    prepend_items(body, earlier)
    chat = DIALECT.read_request(DIALECT.parse_request(body.write()).body)
    # Behind calls there is a result that says that they have none.
    answer = next(message for message in reversed(chat.messages) if message.role == "assistant")
    assistant_parts = tuple(part for part in answer.parts if not isinstance(part, Opaque))
    assert [part.text for part in assistant_parts if isinstance(part, Text)] == [
        part.text for part in expected_parts(recording.response) if isinstance(part, Text)
    ]
    assert all(each["id"] for each in write_input_items(earlier, "resp_1"))


@one_test_per_group(ERROR_RESPONSES, group=host_folder, name=recording_name)
def test_recorded_error_is_mapped_and_keeps_its_message(recording: Recording) -> None:
    error = OpenAICompatible("host", {}).read_error(recording.status, recording.headers, recording.raw)
    assert type(error) is ERRORS[recording.status]
    error_body: Any = recording.body.get("error", recording.body)
    message: str = error_body if isinstance(error_body, str) else error_body["message"]
    assert error.message.endswith(mask_credentials(message))
    written_error = json.loads(DIALECT.write_error(error))["error"]
    assert (written_error["message"], written_error["code"]) == (error.message, error.status)


def assert_only_known_fields_replaced(sent: dict[str, Any], recording: Recording, original: dict[str, Any] | None = None) -> None:
    """The gateway's own fields are replaced and missing defaults added; everything else that the host sent is unchanged."""
    recorded = recording.response if original is None else original
    for key, value in recorded.items():
        match key:
            case "usage" if value is not None:
                assert {**sent[key], "input_tokens_details": value["input_tokens_details"]} == value
                assert sent[key]["input_tokens_details"] == {"cache_write_tokens": 0, **value["input_tokens_details"]}
            case "created_at" if recording.name in FRACTIONAL_TIMES:
                assert (sent[key], type(sent[key])) == (value, int)
            case _ if key not in REPLACED_FIELDS:
                assert sent[key] == value, key
            case _:
                pass
    stored = recording.request_body.get("store", True)
    assert [sent[key] for key in sorted(REPLACED_FIELDS)] == [f"resp_{META.id}", META.model, None, stored]


def finish_reason(response: dict[str, Any]) -> str:
    assert response["status"] == "completed"
    return "tool_calls" if any(item["type"] == "function_call" for item in response["output"]) else "stop"


def expected_parts(response: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of the response, read with no code of providers/."""
    found: list[Part] = []
    for item in response["output"]:
        match item["type"]:
            case "message":
                found += [
                    Refusal(each["refusal"])
                    if each["type"] == "refusal"
                    else Text(
                        each["text"], tuple(expected_citation(annotation) for annotation in each["annotations"]), phase=item.get("phase")
                    )
                    for each in item["content"]
                ]
            case "reasoning":
                text = "\n\n".join(each["text"] for each in item.get("content") or item["summary"])
                encrypted = item.get("encrypted_content")
                if text or encrypted:
                    found.append(Reasoning(text, OpaqueState("openai_responses", encrypted) if encrypted else None))
            case "function_call":
                found.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
            case _:
                found.append(Opaque("openai_responses", raw_json(item)))
    return tuple(found)


def expected_citation(annotation: dict[str, Any]) -> Citation:
    return Citation(
        "openai_responses",
        raw_json(annotation),
        annotation["url"],
        annotation["title"],
        None,
        annotation["start_index"],
        annotation["end_index"],
    )


def raw_json(value: dict[str, Any]) -> Raw:
    return Raw(json.dumps(value).encode())


def expected_usage(usage: dict[str, Any]) -> Usage:
    into, out = usage["input_tokens_details"], usage["output_tokens_details"]
    tools = usage.get("server_side_tool_usage_details", {})  # xAI's
    return Usage(
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cached=into["cached_tokens"],
        reasoning=out["reasoning_tokens"],
        cache_written=into.get("cache_write_tokens"),
        host_cost_microusd=expected_host_cost(usage),
        tool_uses={"web_search": searches} if (searches := tools.get("web_search_calls")) else None,
    )


def random_blocks(recording: Recording) -> list[bytes]:
    """The bytes cut at random places, the same in every run."""
    raw = recording.raw
    rng = random.Random(recording.name)
    cuts = sorted(rng.randrange(len(raw)) for _ in range(min(200, len(raw) // 10)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def decode_events(out: bytes) -> list[dict[str, Any]]:
    *frames, remainder = out.split(b"\n\n")
    assert remainder == b""
    return [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]
