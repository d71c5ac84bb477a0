"""OpenRouter beyond OpenAI's chat: opaque reasoning comes back unchanged, and errors inside responses are errors."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import Opaque, OpaqueState, Reasoning, Text, ToolCall
from providers.canonical.errors import CredentialRefused, Overloaded, UnparsableModelOutput, UpstreamError, UpstreamFailed
from providers.canonical.events import assemble_response
from providers.dialects.openai_chat import OpenAIChat
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.conformance.translation import CALLERS, translate_response
from tests.support.adapted_body import adapt_body
from tests.support.field_handling import translate_body
from tests.support.strategies.chat_strategies import META, bounded
from tests.unit.hosted.test_host_specs import build_adapter

CALL = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
SIGNED = {"type": "reasoning.text", "text": "Let me look.", "format": "anthropic-claude-v1", "index": 0, "signature": "EvgC=="}
SUMMARY = {"type": "reasoning.summary", "summary": "Weighing it.", "format": "openai-responses-v1", "index": 0}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "gAAAA==", "format": "openai-responses-v1", "id": "rs_1", "index": 0}
KINDS: dict[str, list[dict[str, Any]]] = {"signed": [SIGNED], "summary and encrypted": [SUMMARY, ENCRYPTED], "encrypted": [ENCRYPTED]}


def reasoning_text(details: list[dict[str, Any]]) -> str:
    return "".join(each.get("text") or each.get("summary") or "" for each in details)


def response_body(details: list[dict[str, Any]]) -> bytes:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning": reasoning_text(details) or None,
        "reasoning_details": details,
        "tool_calls": [CALL],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    return json.dumps(
        {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    ).encode()


def stream_deltas(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns deltas as OpenRouter streams them: a few characters in a chunk, the signature in a chunk of its own."""
    text_key = next((key for key in ("text", "summary") if key in detail), None)
    if text_key is None:
        return [{"reasoning_details": [detail]}]
    other_fields = {key: value for key, value in detail.items() if key not in (text_key, "signature")}
    text = detail[text_key]
    deltas = [
        {"reasoning": text[at : at + 4], "reasoning_details": [{**other_fields, text_key: text[at : at + 4]}]}
        for at in range(0, len(text), 4)
    ]
    return [*deltas, {"reasoning_details": [{**other_fields, "signature": detail["signature"]}]}] if "signature" in detail else deltas


def response_stream(details: list[dict[str, Any]]) -> bytes:
    deltas = [*(piece for detail in details for piece in stream_deltas(detail)), {"tool_calls": [CALL]}]
    chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]} for delta in deltas]
    last = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    all_chunks = [*chunks, {"choices": [last]}, {"choices": [last], "usage": usage}]
    frames = [f"data: {json.dumps({'object': 'chat.completion.chunk', **each})}" for each in all_chunks]
    return "\n\n".join([": OPENROUTER PROCESSING", *frames, "data: [DONE]", ""]).encode() + b"\n"


def sorted_details(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(details, key=lambda each: each["type"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("arrives", ["streamed", "whole"])
def test_reasoning_details_come_back_unchanged_through_every_official_client(kind: str, caller: str, streamed: bool, arrives: str):
    """Each official client appends the response to the conversation as its guide says."""
    details = KINDS[kind]
    response = response_stream(details) if arrives == "streamed" else response_body(details)
    sdk = CALLERS[caller]
    received = sdk.parse(
        translate_response(response, CHAT, caller, arrives_streamed=arrives == "streamed", streamed=streamed), streamed=streamed
    )
    raw = json.dumps({**sdk.next_request_body(received), "model": "m"}).encode()
    body = json.loads(translate_body(build_adapter("openrouter"), caller, raw).raw)
    (message,) = [each for each in body["messages"] if each["role"] == "assistant"]
    assert sorted_details(message["reasoning_details"]) == sorted_details(details)
    assert message.get("reasoning", "") == reasoning_text(details) and "reasoning_content" not in message
    assert [each["function"]["name"] for each in message["tool_calls"]] == ["now"]
    assert b"nx1." not in raw or b"nx1." not in json.dumps(body).encode()


@bounded
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_streamed_reasoning_details_read_like_whole_ones_wherever_cut(kind: str, data: st.DataObject):
    details = KINDS[kind]
    wire = response_stream(details)
    cuts = sorted({0, len(wire), *data.draw(st.lists(st.integers(0, len(wire)), max_size=8))})
    reader = OpenAIChat().stream_reader()
    events = [event for start, end in itertools.pairwise(cuts) for event in reader.feed(wire[start:end])]
    read = assemble_response([*events, *reader.finish()])
    assert read.choices[0].parts == OpenAIChat().read_response(response_body(details)).choices[0].parts
    assert read.usage == OpenAIChat().read_response(response_body(details)).usage


def test_reasoning_blocks_stay_separate():
    both = [SIGNED, {**SIGNED, "text": "And again.", "index": 1, "signature": "Zz=="}]
    states = [json.dumps({key: value for key, value in each.items() if key != "text"}, separators=(",", ":")) for each in both]
    reader = OpenAIChat().stream_reader()
    parts = assemble_response([*reader.feed(response_stream(both)), *reader.finish()]).choices[0].parts
    assert parts == (
        Reasoning("Let me look.", OpaqueState(CHAT, states[0])),
        Reasoning("And again.", OpaqueState(CHAT, states[1])),
        ToolCall("call_a", "now", "{}"),
    )


def test_reasoning_details_are_dropped_for_a_host_that_does_not_know_them():
    details = [{"type": "reasoning.encrypted", "data": "x", "format": "y", "index": 0}]
    message = {"role": "assistant", "content": "x", "reasoning_details": details}
    body, dropped, _ = adapt_body(build_adapter("groq"), {"messages": [message]})
    assert body["messages"] == [{"role": "assistant", "content": "x"}] and dropped == ["messages[0].reasoning_details"]
    assert adapt_body(build_adapter("openrouter"), {"messages": [message]})[0]["messages"] == [message]


ERRORS: list[tuple[dict[str, Any], type[UpstreamError]]] = [
    ({"error": {"code": 429, "message": "Provider returned error"}}, Overloaded),
    ({"error": {"code": 502, "message": "Provider disconnected"}}, UpstreamFailed),
    ({"error": {"code": 401, "message": "No auth"}}, CredentialRefused),
    (
        {"error": {"code": "server_error", "message": "Provider disconnected"}, "choices": [{"delta": {}, "finish_reason": "error"}]},
        UpstreamFailed,
    ),
    # Groq's, for a tool call that its model wrote incorrectly.
    ({"error": {"message": "no call", "code": "tool_use_failed", "status_code": 400}}, UnparsableModelOutput),
    ({"choices": [{"index": 0, "message": {"content": ""}, "delta": {"content": ""}, "finish_reason": "error"}]}, UpstreamFailed),
]


@pytest.mark.parametrize(("body", "kind"), ERRORS, ids=range(len(ERRORS)))
def test_error_inside_a_response_is_raised(body: dict[str, Any], kind: type[UpstreamError]):
    dialect, raw = OpenAIChat(), json.dumps(body).encode()
    for act in (lambda: dialect.edit_response(raw, META), lambda: dialect.read_response(raw)):
        with pytest.raises(kind):
            act()
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}]}
    frames = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: " + raw + b"\n\n"
    editor = dialect.stream_editor(META)
    assert b"Hi" in editor.feed(frames) and type(editor.failure) is kind
    events: list[Any] = []
    with pytest.raises(kind):
        events.extend(dialect.stream_reader().feed(frames))
    assert Text("Hi") not in events and not any(isinstance(each, Opaque) for each in events)
