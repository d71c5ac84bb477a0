"""Laws of what OpenRouter tells beyond OpenAI's chat: sealed reasoning comes back as it came, and errors within answers are errors."""

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
from tests.conformance.crossing import CALLERS, crossed
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.laws.bending import bent
from tests.laws.chats import STAMP, bounded
from tests.laws.engine_fields import prepare
from tests.laws.test_rows import adapter

CALL = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
SIGNED = {"type": "reasoning.text", "text": "Let me look.", "format": "anthropic-claude-v1", "index": 0, "signature": "EvgC=="}
SUMMED = {"type": "reasoning.summary", "summary": "Weighing it.", "format": "openai-responses-v1", "index": 0}
LOCKED = {"type": "reasoning.encrypted", "data": "gAAAA==", "format": "openai-responses-v1", "id": "rs_1", "index": 0}
KINDS: dict[str, list[dict[str, Any]]] = {"signed": [SIGNED], "summed and locked": [SUMMED, LOCKED], "locked": [LOCKED]}


def thoughts(details: list[dict[str, Any]]) -> str:
    return "".join(each.get("text") or each.get("summary") or "" for each in details)


def whole(details: list[dict[str, Any]]) -> bytes:
    said = {
        "role": "assistant",
        "content": None,
        "reasoning": thoughts(details) or None,
        "reasoning_details": details,
        "tool_calls": [CALL],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    return json.dumps(
        {"object": "chat.completion", "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}], "usage": usage}
    ).encode()


def pieces(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """As it streams them: a few characters a chunk, the signature in a chunk of its own."""
    word = next((key for key in ("text", "summary") if key in detail), None)
    if word is None:
        return [{"reasoning_details": [detail]}]
    rest = {key: value for key, value in detail.items() if key not in (word, "signature")}
    text = detail[word]
    told = [{"reasoning": text[at : at + 4], "reasoning_details": [{**rest, word: text[at : at + 4]}]} for at in range(0, len(text), 4)]
    return [*told, {"reasoning_details": [{**rest, "signature": detail["signature"]}]}] if "signature" in detail else told


def stream(details: list[dict[str, Any]]) -> bytes:
    deltas = [*(piece for detail in details for piece in pieces(detail)), {"tool_calls": [CALL]}]
    chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]} for delta in deltas]
    last = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    told = [*chunks, {"choices": [last]}, {"choices": [last], "usage": usage}]
    frames = [f"data: {json.dumps({'object': 'chat.completion.chunk', **each})}" for each in told]
    return "\n\n".join([": OPENROUTER PROCESSING", *frames, "data: [DONE]", ""]).encode() + b"\n"


def entries(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(details, key=lambda each: each["type"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("arrives", ["streamed", "whole"])
def test_sealed_reasoning_comes_back_as_it_came(kind: str, caller: str, streamed: bool, arrives: str):
    """Through the official client of any dialect, which appends the answer to the conversation as its guide says."""
    details = KINDS[kind]
    answer = stream(details) if arrives == "streamed" else whole(details)
    sdk = CALLERS[caller]
    heard = sdk.take(crossed(answer, CHAT, caller, arrives_streamed=arrives == "streamed", streamed=streamed), streamed=streamed)
    raw = json.dumps({**sdk.next_ask(heard), "model": "m"}).encode()
    body = json.loads(prepare(adapter("openrouter"), caller, raw).raw)
    (said,) = [each for each in body["messages"] if each["role"] == "assistant"]
    assert entries(said["reasoning_details"]) == entries(details)
    assert said.get("reasoning", "") == thoughts(details) and "reasoning_content" not in said
    assert [each["function"]["name"] for each in said["tool_calls"]] == ["now"]
    assert b"nx1." not in raw or b"nx1." not in json.dumps(body).encode()


@bounded
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_a_stream_of_details_is_read_as_the_whole_is_wherever_it_is_cut(kind: str, data: st.DataObject):
    details = KINDS[kind]
    wire = stream(details)
    places = sorted({0, len(wire), *data.draw(st.lists(st.integers(0, len(wire)), max_size=8))})
    reader = OpenAIChat().stream_reader()
    events = [event for start, end in itertools.pairwise(places) for event in reader.feed(wire[start:end])]
    read = assemble_response([*events, *reader.finish()])
    assert read.choices[0].parts == OpenAIChat().read_response(whole(details)).choices[0].parts
    assert read.usage == OpenAIChat().read_response(whole(details)).usage


def test_blocks_of_reasoning_stay_apart():
    both = [SIGNED, {**SIGNED, "text": "And again.", "index": 1, "signature": "Zz=="}]
    seals = [json.dumps({key: value for key, value in each.items() if key != "text"}, separators=(",", ":")) for each in both]
    reader = OpenAIChat().stream_reader()
    parts = assemble_response([*reader.feed(stream(both)), *reader.finish()]).choices[0].parts
    assert parts == (
        Reasoning("Let me look.", OpaqueState(CHAT, seals[0])),
        Reasoning("And again.", OpaqueState(CHAT, seals[1])),
        ToolCall("call_a", "now", "{}"),
    )


def test_what_is_sealed_goes_to_no_host_that_does_not_know_it():
    details = [{"type": "reasoning.encrypted", "data": "x", "format": "y", "index": 0}]
    said = {"role": "assistant", "content": "x", "reasoning_details": details}
    body, dropped, _ = bent(adapter("groq"), {"messages": [said]})
    assert body["messages"] == [{"role": "assistant", "content": "x"}] and dropped == ["messages[0].reasoning_details"]
    assert bent(adapter("openrouter"), {"messages": [said]})[0]["messages"] == [said]


ERRORS: list[tuple[dict[str, Any], type[UpstreamError]]] = [
    ({"error": {"code": 429, "message": "Provider returned error"}}, Overloaded),
    ({"error": {"code": 502, "message": "Provider disconnected"}}, UpstreamFailed),
    ({"error": {"code": 401, "message": "No auth"}}, CredentialRefused),
    (
        {"error": {"code": "server_error", "message": "Provider disconnected"}, "choices": [{"delta": {}, "finish_reason": "error"}]},
        UpstreamFailed,
    ),
    # Groq's, of what its model wrote amiss.
    ({"error": {"message": "no call", "code": "tool_use_failed", "status_code": 400}}, UnparsableModelOutput),
    ({"choices": [{"index": 0, "message": {"content": ""}, "delta": {"content": ""}, "finish_reason": "error"}]}, UpstreamFailed),
]


@pytest.mark.parametrize(("told", "kind"), ERRORS, ids=range(len(ERRORS)))
def test_an_error_within_an_answer_is_one(told: dict[str, Any], kind: type[UpstreamError]):
    dialect, raw = OpenAIChat(), json.dumps(told).encode()
    for act in (lambda: dialect.edit_response(raw, STAMP), lambda: dialect.read_response(raw)):
        with pytest.raises(kind):
            act()
    chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}]}
    frames = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: " + raw + b"\n\n"
    editor = dialect.stream_editor(STAMP)
    assert b"Hi" in editor.feed(frames) and type(editor.failure) is kind
    events: list[Any] = []
    with pytest.raises(kind):
        events.extend(dialect.stream_reader().feed(frames))
    assert Text("Hi") not in events and not any(isinstance(each, Opaque) for each in events)
