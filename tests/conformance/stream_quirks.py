"""Streams as real engines send them against their API's documentation, and the response that callers get all the same.

Sources: docs/sources.md#host-streams and docs/sources.md#engine-streams, read 2026-11.
"""

import json
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.engine_chat import chunk, usage_chunks
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, HELLO, PARIS, RESPONSES, ROME, Situation, WireResponse


class StreamQuirk(Struct, frozen=True):
    """A response and the undocumented stream that an engine of `target` sends for it."""

    situation: Situation
    target: str
    wire: WireResponse
    # Whether callers of the engine's own dialect get the documented stream too. Else it passes unchanged: their SDKs accept it.
    repaired: bool = True


USAGE = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
TWO_CALLS = Situation(name="", parts=(PARIS, ROME), finish="tool_calls")


def _function(call: ToolCall, **more: Any) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}, **more}


def _function_without_id(name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    if name is None:
        return {"index": 0, "function": {"arguments": arguments}, **more}
    return {"index": 0, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def _calls(*deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": [each]}) for each in deltas]


_FIRST_CHUNK = chunk({"role": "assistant", "content": None})
_LAST_CHUNKS = [chunk({}, "tool_calls"), *usage_chunks(USAGE)]
_FIRST_HALF, _SECOND_HALF = PARIS.arguments[:7], PARIS.arguments[7:]


def _chat(name: str, chunks: list[dict[str, Any]], situation: Situation = TWO_CALLS, *, wire: bytes | None = None) -> StreamQuirk:
    """A quirk of streams; the unstreamed response does not have it."""
    stream = engine_chat.encode_chunks(chunks) if wire is None else wire
    return StreamQuirk(replace(situation, name=name, unstreamed_targets=()), CHAT, WireResponse(stream, None))


ONE_CALL = replace(TWO_CALLS, parts=(PARIS,))
ONE_CALL_WITHOUT_ID = replace(TWO_CALLS, parts=(replace(PARIS, id=""),))
PLAIN_TEXT = Situation(name="", parts=(HELLO,))
_TEXT_STREAM = engine_chat.wire_response(PLAIN_TEXT).stream

CHAT_QUIRKS = (
    _chat("no index", [_FIRST_CHUNK, *_calls(_function(PARIS), _function(ROME)), *_LAST_CHUNKS]),
    _chat("no index, both calls at once", [_FIRST_CHUNK, chunk({"tool_calls": [_function(PARIS), _function(ROME)]}), *_LAST_CHUNKS]),
    _chat(
        "every call at index 0, with its own id",
        [_FIRST_CHUNK, *_calls(_function(PARIS, index=0), _function(ROME, index=0)), *_LAST_CHUNKS],
    ),
    _chat(
        "no id",
        [_FIRST_CHUNK, *_calls(_function_without_id(PARIS.name, _FIRST_HALF), _function_without_id(None, _SECOND_HALF)), *_LAST_CHUNKS],
        ONE_CALL_WITHOUT_ID,
    ),
    _chat(
        "an empty id", [_FIRST_CHUNK, *_calls(_function_without_id(PARIS.name, PARIS.arguments, id="")), *_LAST_CHUNKS], ONE_CALL_WITHOUT_ID
    ),
    _chat(
        "the name repeated, empty",
        [
            _FIRST_CHUNK,
            *_calls(_function_without_id(PARIS.name, _FIRST_HALF, id=PARIS.id), _function_without_id("", _SECOND_HALF, id="")),
            *_LAST_CHUNKS,
        ],
        ONE_CALL,
    ),
    _chat(
        "id and name repeated in every fragment",
        [
            _FIRST_CHUNK,
            *_calls(
                _function_without_id(PARIS.name, _FIRST_HALF, id=PARIS.id), _function_without_id(PARIS.name, _SECOND_HALF, id=PARIS.id)
            ),
            *_LAST_CHUNKS,
        ],
        ONE_CALL,
    ),
    _chat("the finish reason twice", [_FIRST_CHUNK, *_calls(_function(PARIS, index=0)), chunk({}, "tool_calls"), *_LAST_CHUNKS], ONE_CALL),
    _chat(
        "the call, the finish and usage in one chunk",
        [{**chunk({"role": "assistant", "content": "", "tool_calls": [_function(PARIS, index=0)]}, "tool_calls"), "usage": USAGE}],
        ONE_CALL,
    ),
    _chat("usage on every chunk", [{**each, "usage": USAGE} for each in engine_chat.stream_chunks(PLAIN_TEXT)], PLAIN_TEXT),
    _chat("no [DONE]", [], PLAIN_TEXT, wire=_TEXT_STREAM.removesuffix(b"data: [DONE]\n\n")),
    _chat("comments and CRLF line ends", [], PLAIN_TEXT, wire=b": waiting\r\n\r\n" + _TEXT_STREAM.replace(b"\n", b"\r\n")),
    _chat(
        "`reasoning` instead of `reasoning_content`",
        [
            _FIRST_CHUNK,
            chunk({"reasoning": "Hm, "}),
            chunk({"reasoning": "hm."}),
            chunk({"content": "Yes."}),
            chunk({}, "stop"),
            *usage_chunks(USAGE),
        ],
        Situation(name="", parts=(Reasoning("Hm, hm."), Text("Yes."))),
    ),
    _chat(
        "text and a call in one delta",
        [chunk({"role": "assistant", "content": HELLO.text, "tool_calls": [_function(PARIS, index=0)]}), *_LAST_CHUNKS],
        replace(TWO_CALLS, parts=(HELLO, PARIS)),
    ),
    _chat(
        "an empty list of calls on each chunk",
        [chunk({"role": "assistant", "content": HELLO.text, "tool_calls": []}), chunk({"tool_calls": []}, "stop"), *usage_chunks(USAGE)],
        PLAIN_TEXT,
    ),
    _chat(
        "a call without arguments at all",
        [_FIRST_CHUNK, *_calls({"index": 0, "id": "call_1", "type": "function", "function": {"name": "now"}}), *_LAST_CHUNKS],
        replace(TWO_CALLS, parts=(ToolCall("call_1", "now", ""),)),
    ),
    _chat(
        "a surrogate pair cut in two",
        [chunk({"role": "assistant", "content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({}, "stop"), *usage_chunks(USAGE)],
        Situation(name="", parts=(Text("a\ufffd\ufffdb"),)),
    ),
)


def _anthropic(
    name: str, event_bodies: list[dict[str, Any]], situation: Situation, *, repaired: bool = True, wire: bytes | None = None
) -> StreamQuirk:
    stream = engine_anthropic.encode_events(event_bodies) if wire is None else wire
    return StreamQuirk(replace(situation, name=name, unstreamed_targets=()), ANTHROPIC, WireResponse(stream, None), repaired)


def _with_input_in_block_start(situation: Situation) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    for each in engine_anthropic.stream_events(situation):
        if each["type"] == "content_block_start":
            at: int = each["index"]
            part = situation.parts[at]
            assert isinstance(part, ToolCall)
            each = {**each, "content_block": {**each["content_block"], "input": json.loads(part.arguments)}}
        if each["type"] != "content_block_delta":
            bodies.append(each)
    return bodies


_SIGNED = Situation(name="", parts=(Reasoning("Hm.", OpaqueState(ANTHROPIC, "x")), HELLO))
_UNSIGNED = [
    each
    for each in engine_anthropic.stream_events(_SIGNED)
    if each["type"] != "content_block_delta" or each["delta"]["type"] != "signature_delta"
]

ANTHROPIC_QUIRKS = (
    _anthropic("the whole input in the start of a block", _with_input_in_block_start(TWO_CALLS), TWO_CALLS),
    _anthropic(
        "padded JSON and no event names",
        [],
        TWO_CALLS,
        wire=b"".join(b"data: " + json.dumps(each).encode()[:-1] + b"      }\n\n" for each in engine_anthropic.stream_events(TWO_CALLS)),
    ),
    _anthropic(
        "usage only at the end",
        [
            {**each, "message": {**each["message"], "usage": {"input_tokens": 0, "output_tokens": 0}}} if "message" in each else each
            for each in engine_anthropic.stream_events(PLAIN_TEXT)
            if each["type"] != "ping"
        ],
        PLAIN_TEXT,
    ),
    _anthropic("thinking without a signature", _UNSIGNED, Situation(name="", parts=(Reasoning("Hm."), HELLO))),
)


def _responses(
    name: str, event_bodies: list[dict[str, Any]], situation: Situation, *, repaired: bool = True, wire: bytes | None = None
) -> StreamQuirk:
    stream = engine_responses.encode_events(event_bodies) if wire is None else wire
    return StreamQuirk(replace(situation, name=name, unstreamed_targets=()), RESPONSES, WireResponse(stream, None), repaired)


def _without_event_kinds(situation: Situation, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in engine_responses.stream_events(situation) if not each["type"].endswith(kinds)]


TEXT_AND_CALLS = replace(TWO_CALLS, parts=(HELLO, PARIS, ROME))
_THOUGHT = Situation(name="", parts=(Reasoning("Hm."), HELLO))


def _with_reasoning_as_content() -> list[dict[str, Any]]:
    """Engines of open models send reasoning as content, not as a summary."""
    item: dict[str, Any] = {"id": "rs_0", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    position = {"output_index": 0, "item_id": "rs_0", "content_index": 0}
    usual = engine_responses.stream_events(_THOUGHT)
    other_events = [each for each in usual[2:-1] if each["output_index"] == 1]
    final = usual[-1]["response"]
    return [
        *usual[:2],
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.reasoning_text.delta", **position, "delta": "H"},
        {"type": "response.reasoning_text.delta", **position, "delta": "m."},
        {"type": "response.reasoning_text.done", **position, "text": "Hm."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *other_events,
        {**usual[-1], "response": {**final, "output": [item, final["output"][1]]}},
    ]


RESPONSES_QUIRKS = (
    _responses("arguments only in the done event", _without_event_kinds(TWO_CALLS, "arguments.delta"), TWO_CALLS),
    _responses(
        "items only in the done event",
        _without_event_kinds(TEXT_AND_CALLS, ".delta", ".added", "text.done", "part.done", "arguments.done"),
        TEXT_AND_CALLS,
    ),
    _responses("no content_part events", _without_event_kinds(TEXT_AND_CALLS, "part.added", "part.done"), TEXT_AND_CALLS),
    _responses(
        "an event of an unknown kind",
        [*(usual_events := engine_responses.stream_events(TEXT_AND_CALLS))[:3], {"type": "keepalive"}, *usual_events[3:]],
        TEXT_AND_CALLS,
        repaired=False,
    ),
    _responses(
        "the response in the last event alone", [(each := engine_responses.stream_events(TEXT_AND_CALLS))[0], each[-1]], TEXT_AND_CALLS
    ),
    _responses("no response.created", engine_responses.stream_events(TEXT_AND_CALLS)[1:], TEXT_AND_CALLS),
    _responses(
        "an item added twice", [*(all_events := engine_responses.stream_events(TEXT_AND_CALLS))[:3], *all_events[2:]], TEXT_AND_CALLS
    ),
    _responses("reasoning as content", _with_reasoning_as_content(), _THOUGHT),
    _responses(
        "no event names, no sequence numbers, and [DONE]",
        [],
        TEXT_AND_CALLS,
        wire=b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in engine_responses.stream_events(TEXT_AND_CALLS))
        + b"data: [DONE]\n\n",
    ),
)

STREAM_QUIRKS = tuple(
    replace(quirk, situation=replace(quirk.situation, callers=tuple(each for each in ALL if quirk.repaired or each != quirk.target)))
    for quirk in (*CHAT_QUIRKS, *ANTHROPIC_QUIRKS, *RESPONSES_QUIRKS)
)
