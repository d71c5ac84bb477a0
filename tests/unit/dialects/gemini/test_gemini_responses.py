"""Responses for Gemini's callers: what is written is read again, whole or streamed, and comes back with the next request."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import (
    ChatResponse,
    Choice,
    Citation,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from providers.canonical.errors import InvalidUpstreamResponse, LimitExceeded, NotAllowed, StreamTruncated
from providers.canonical.events import assemble_response, response_events
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.gemini.opaque_states import holds_signature_carrier
from tests.support.strategies.chat_strategies import META, bounded, nonempty_texts, texts

DIALECT = CHAT_DIALECTS["gemini"]
WITH_THOUGHTS = replace(META, request_body=Body(generationConfig={"thinkingConfig": {"includeThoughts": True}}))

_states = st.builds(OpaqueState, st.sampled_from(["anthropic_messages", "openai_responses", "openai_chat"]), nonempty_texts)
_calls = st.builds(
    ToolCall,
    id=nonempty_texts,
    name=nonempty_texts,
    arguments=st.dictionaries(texts, st.integers(0, 9), max_size=2).map(json.dumps),
    opaque_state=st.none() | _states,
)
_opaque = st.builds(
    Opaque,
    st.sampled_from(["anthropic_messages", "openai_responses"]),
    texts.map(lambda data: Raw(json.dumps({"type": "reasoning", "data": data}).encode())),
)
_parts = st.one_of(st.builds(Text, nonempty_texts), st.builds(Reasoning, nonempty_texts, st.none() | _states), _calls, _opaque)


def _unmerged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts of which no neighbours are one for Gemini, and whose calls have different ids."""
    kept: list[Part] = []
    ids: set[str] = set()
    for part in parts:
        if kept and isinstance(part, Text | Reasoning) and type(part) is type(kept[-1]):
            continue
        if isinstance(part, ToolCall):
            if part.id in ids:
                continue
            ids.add(part.id)
        kept.append(part)
    return tuple(kept)


def _response(parts: tuple[Part, ...]) -> ChatResponse:
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return ChatResponse((Choice(parts, "tool_calls" if has_calls else "stop"),), META.model, usage=Usage(3, 5, 1, 2))


responses = st.lists(_parts, min_size=1, max_size=5).map(_unmerged).map(_response)


def comparable(response: ChatResponse) -> list[Any]:
    return [_plain(part) for part in response.choices[0].parts]


def _plain(part: Part) -> Any:
    match part:
        case ToolCall():
            return ("call", part.id, part.name, json.loads(part.arguments), part.opaque_state)
        case Opaque():
            return ("opaque", part.origin, json.loads(bytes(part.raw)))
        case Text() | Reasoning() | Refusal():
            return (type(part).__name__, part.text, getattr(part, "opaque_state", None))


def stream_of(response: ChatResponse, meta: Any = WITH_THOUGHTS) -> bytes:
    writer = DIALECT.stream_writer(meta)
    return b"".join([writer.feed(event) for event in response_events(response)]) + writer.finish()


@bounded
@given(responses)
def test_written_response_is_read_as_it_was(response: ChatResponse):
    read = DIALECT.read_response(DIALECT.write_response(response, WITH_THOUGHTS))
    assert comparable(read) == comparable(response)
    assert (read.choices[0].finish_reason, read.usage) == (response.choices[0].finish_reason, response.usage)


@bounded
@given(responses, st.data())
def test_written_stream_is_read_as_it_was_however_it_is_cut(response: ChatResponse, data: st.DataObject):
    stream = stream_of(response)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=5)))
    reader = DIALECT.stream_reader()
    events = [
        event for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True) for event in reader.feed(stream[start:end])
    ] + list(reader.finish())
    read = assemble_response(events)
    assert comparable(read) == comparable(response) and read.usage == response.usage


@bounded
@given(responses, st.booleans())
def test_parts_come_back_with_the_next_request(response: ChatResponse, streamed: bool):
    if streamed:
        frames = [json.loads(frame[6:]) for frame in stream_of(response).split(b"\n\n") if frame]
        contents = [frame["candidates"][0]["content"] for frame in frames]
    else:
        contents = [json.loads(DIALECT.write_response(response, WITH_THOUGHTS))["candidates"][0]["content"]]
    body = {"model": "m", "contents": [{"parts": [{"text": "Hi"}]}, *contents]}
    message = DIALECT.read_request(DIALECT.parse_request(json.dumps(body).encode()).body).messages[1]
    parts: tuple[Any, ...] = message.parts
    assert [_plain(part) for part in parts if part != Text("")] == comparable(response)


SIGNED = (Reasoning("Where?", OpaqueState("anthropic_messages", "sig")), Text("Wait."), ToolCall("c", "f", "{}"))


@pytest.mark.parametrize("meta", [META, WITH_THOUGHTS])
def test_call_carries_the_thought_that_a_client_leaves_out(meta: Any):
    """It comes before the text: Claude wants a turn to begin with its thinking."""
    response = ChatResponse((Choice(SIGNED, "tool_calls"),), "m")
    parts = json.loads(DIALECT.write_response(response, meta))["candidates"][0]["content"]["parts"]
    assert any(part.get("thought") for part in parts) == (meta is WITH_THOUGHTS)
    kept = [part for part in parts if not part.get("thought")]
    raw = json.dumps({"model": "m", "contents": [{"parts": [{"text": "Hi"}]}, {"role": "model", "parts": kept}]}).encode()
    request = DIALECT.parse_request(raw)
    assert request.carries_state and holds_signature_carrier(raw)
    assert DIALECT.read_request(request.body).messages[1].parts == SIGNED


def test_made_up_carrier_is_no_fault_of_the_gateway():
    for signature in ("bngxLm", "bngxLg==", "bngxLm5hcnRoZXhfcGFydHMuZQ==", "bngxLm5hcnRoZXhfcGFydC5l"):
        parts = [
            {"functionCall": {"name": "f"}, "thoughtSignature": signature},
            {"text": "", "thought": True, "thoughtSignature": signature},
        ]
        raw = json.dumps({"model": "m", "contents": [{"role": "model", "parts": parts}]}).encode()
        assert len(DIALECT.read_request(DIALECT.parse_request(raw).body).messages[0].parts) == 2


def test_citations_are_grounding_metadata_by_bytes():
    text = Text("Grüße aus Rom.", (Citation("openai_chat", Raw(b"{}"), "https://example.com", "Rome", None, 6, 9),))
    response = ChatResponse((Choice((text,), "stop"),), "m")
    grounding = json.loads(DIALECT.write_response(response, META))["candidates"][0]["groundingMetadata"]
    assert grounding == {
        "groundingChunks": [{"web": {"uri": "https://example.com", "title": "Rome"}}],
        "groundingSupports": [{"segment": {"partIndex": 0, "startIndex": 8, "endIndex": 11, "text": "aus"}, "groundingChunkIndices": [0]}],
    }
    reader = DIALECT.stream_reader()
    streamed = assemble_response([*reader.feed(stream_of(response, META)), *reader.finish()])
    for read in (DIALECT.read_response(DIALECT.write_response(response, META)), streamed):
        (part,) = read.choices[0].parts
        assert isinstance(part, Text) and [(each.url, each.start, each.end) for each in part.citations] == [("https://example.com", 6, 9)]


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (Choice((Text("a"),), "stop"), "STOP"),
        (Choice((ToolCall("c", "f", "{}"),), "tool_calls"), "STOP"),
        (Choice((Text("a"),), "length", upstream_finish_reason="model_context_window_exceeded"), "MAX_TOKENS"),
        (Choice((Text("a"),), "content_filter"), "SAFETY"),
        (Choice((Text("a"),), "content_filter", upstream_finish_reason="RECITATION"), "RECITATION"),
        (Choice((Refusal("no"),), "stop"), "SAFETY"),
    ],
)
def test_finish_reasons_are_googles(choice: Choice, reason: str):
    response = ChatResponse((choice,), "m")
    assert json.loads(DIALECT.write_response(response, META))["candidates"][0]["finishReason"] == reason
    assert json.loads(stream_of(response).split(b"\n\n")[-2][6:])["candidates"][0]["finishReason"] == reason


ANSWER: dict[str, Any] = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi", "thoughtSignature": "QQ"}]}, "finishReason": "STOP", "new": 1}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
    "modelVersion": "gemini-3-flash-001",
    "responseId": "theirs",
}


def test_edit_replaces_id_and_model_and_keeps_the_rest():
    edited = DIALECT.edit_response(json.dumps(ANSWER).encode(), META)
    assert json.loads(edited.raw) == {**ANSWER, "modelVersion": META.model, "responseId": META.id}
    assert (edited.usage, edited.finish_reason, edited.model) == (Usage(3, 2), "stop", "gemini-3-flash-001")


def test_edited_stream_holds_back_its_end():
    middle = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]}
    editor = DIALECT.stream_editor(META)
    stream = b"".join(f"data: {json.dumps(each)}\r\n\r\n".encode() for each in (middle, ANSWER))
    sent = b"".join(editor.feed(stream[at : at + 1]) for at in range(len(stream)))
    last = editor.finish()
    assert b"Hel" in sent and b"STOP" not in sent and b"STOP" in last
    assert (editor.usage, editor.finish_reason, editor.written_tokens) == (Usage(3, 2), "stop", 2)


def test_edited_stream_that_ends_early_is_truncated():
    editor = DIALECT.stream_editor(META)
    editor.feed(b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n')
    with pytest.raises(StreamTruncated):
        editor.finish()


def test_usage_that_google_leaves_out_is_estimated():
    edited = DIALECT.edit_response(json.dumps({"candidates": ANSWER["candidates"]}).encode(), META)
    assert edited.usage is None and json.loads(edited.raw)["usageMetadata"]["candidatesTokenCount"] == 1


def test_unusable_answer_is_passed_on_with_googles_own_word():
    answer = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
    edited = DIALECT.edit_response(json.dumps(answer).encode(), META)
    assert edited.finish_reason == "MALFORMED_FUNCTION_CALL" and b"MALFORMED_FUNCTION_CALL" in edited.raw


def test_blocked_prompt_is_filtered_and_an_empty_answer_is_none():
    blocked = DIALECT.edit_response(b'{"promptFeedback": {"blockReason": "SAFETY"}}', META)
    assert blocked.finish_reason == "content_filter" and b"blockReason" in blocked.raw
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.edit_response(b"{}", META)


def test_error_has_googles_envelope():
    limit = LimitExceeded("Slow down.", code="rate_limit", details={"rule": "r", "amount": 5}, retry_after_s=1.5, headers=())
    error = json.loads(DIALECT.write_error(limit))["error"]
    assert (error["code"], error["status"], error["message"]) == (429, "RESOURCE_EXHAUSTED", "Slow down.")
    info, retry = error["details"]
    assert (info["reason"], info["metadata"]) == ("RATE_LIMIT", {"rule": "r", "amount": "5"}) and retry["retryDelay"] == "1.5s"
    assert json.loads(DIALECT.write_error(NotAllowed("No.")))["error"]["status"] == "PERMISSION_DENIED"
    assert DIALECT.write_error_frame(NotAllowed("No.")).startswith(b'data: {"error"')
