"""What real engines send although their APIs do not document it so, and what it means all the same.

Sources: ../shared/reference/providers.md part 4 and engines.md part 3.5 of the project's references, read 2026-11.
"""

import json
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.engine_chat import chunk, counted
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, HELLO, PARIS, RESPONSES, ROME, Situation, Wire


class Oddity(Struct, frozen=True):
    """`mended`: callers of the engine's own dialect are spared it too. Else it passes as it came: their SDKs live with it."""

    situation: Situation
    target: str
    wire: Wire
    mended: bool = True


USAGE = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
CALLED = Situation(name="", parts=(PARIS, ROME), finish="tool_calls")


def _function(call: ToolCall, **more: Any) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}, **more}


def _named(name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    if name is None:
        return {"index": 0, "function": {"arguments": arguments}, **more}
    return {"index": 0, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def _calls(*deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": [each]}) for each in deltas]


_BEGUN = chunk({"role": "assistant", "content": None})
_ENDED = [chunk({}, "tool_calls"), *counted(USAGE)]
_FIRST, _SECOND = PARIS.arguments[:7], PARIS.arguments[7:]


def _chat(name: str, chunks: list[dict[str, Any]], means: Situation = CALLED, *, wire: bytes | None = None) -> Oddity:
    """An oddity of streams alone."""
    stream = engine_chat.events(chunks) if wire is None else wire
    return Oddity(replace(means, name=name, whole=()), CHAT, Wire(stream, None))


ONE = replace(CALLED, parts=(PARIS,))
NAMELESS = replace(CALLED, parts=(replace(PARIS, id=""),))
SPOKEN = Situation(name="", parts=(HELLO,))
_TEXT = engine_chat.speak(SPOKEN).stream

CHAT_ODDITIES = (
    _chat("no index", [_BEGUN, *_calls(_function(PARIS), _function(ROME)), *_ENDED]),
    _chat("no index, both calls at once", [_BEGUN, chunk({"tool_calls": [_function(PARIS), _function(ROME)]}), *_ENDED]),
    _chat(
        "every call at index 0, told apart by ids",
        [_BEGUN, *_calls(_function(PARIS, index=0), _function(ROME, index=0)), *_ENDED],
    ),
    _chat("no id", [_BEGUN, *_calls(_named(PARIS.name, _FIRST), _named(None, _SECOND)), *_ENDED], NAMELESS),
    _chat("an empty id", [_BEGUN, *_calls(_named(PARIS.name, PARIS.arguments, id="")), *_ENDED], NAMELESS),
    _chat(
        "the name again, empty",
        [_BEGUN, *_calls(_named(PARIS.name, _FIRST, id=PARIS.id), _named("", _SECOND, id="")), *_ENDED],
        ONE,
    ),
    _chat(
        "id and name again in every fragment",
        [_BEGUN, *_calls(_named(PARIS.name, _FIRST, id=PARIS.id), _named(PARIS.name, _SECOND, id=PARIS.id)), *_ENDED],
        ONE,
    ),
    _chat("the finish reason twice", [_BEGUN, *_calls(_function(PARIS, index=0)), chunk({}, "tool_calls"), *_ENDED], ONE),
    _chat(
        "the call, the finish and usage in one chunk",
        [{**chunk({"role": "assistant", "content": "", "tool_calls": [_function(PARIS, index=0)]}, "tool_calls"), "usage": USAGE}],
        ONE,
    ),
    _chat("usage on every chunk", [{**each, "usage": USAGE} for each in engine_chat.stream(SPOKEN)], SPOKEN),
    _chat("no [DONE]", [], SPOKEN, wire=_TEXT.removesuffix(b"data: [DONE]\n\n")),
    _chat("comments and line ends of two characters", [], SPOKEN, wire=b": waiting\r\n\r\n" + _TEXT.replace(b"\n", b"\r\n")),
    _chat(
        "reasoning under its other name",
        [_BEGUN, chunk({"reasoning": "Hm, "}), chunk({"reasoning": "hm."}), chunk({"content": "Yes."}), chunk({}, "stop"), *counted(USAGE)],
        Situation(name="", parts=(Reasoning("Hm, hm."), Text("Yes."))),
    ),
    _chat(
        "text and a call in one delta",
        [chunk({"role": "assistant", "content": HELLO.text, "tool_calls": [_function(PARIS, index=0)]}), *_ENDED],
        replace(CALLED, parts=(HELLO, PARIS)),
    ),
    _chat(
        "an empty list of calls on each chunk",
        [chunk({"role": "assistant", "content": HELLO.text, "tool_calls": []}), chunk({"tool_calls": []}, "stop"), *counted(USAGE)],
        SPOKEN,
    ),
    _chat(
        "a call without arguments at all",
        [_BEGUN, *_calls({"index": 0, "id": "call_1", "type": "function", "function": {"name": "now"}}), *_ENDED],
        replace(CALLED, parts=(ToolCall("call_1", "now", ""),)),
    ),
    _chat(
        "a character cut in two",
        [chunk({"role": "assistant", "content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({}, "stop"), *counted(USAGE)],
        Situation(name="", parts=(Text("a\ufffd\ufffdb"),)),
    ),
)


def _anthropic(name: str, told: list[dict[str, Any]], means: Situation, *, mended: bool = True, wire: bytes | None = None) -> Oddity:
    stream = engine_anthropic.events(told) if wire is None else wire
    return Oddity(replace(means, name=name, whole=()), ANTHROPIC, Wire(stream, None), mended)


def _input_at_once(means: Situation) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    for each in engine_anthropic.stream(means):
        if each["type"] == "content_block_start":
            at: int = each["index"]
            part = means.parts[at]
            assert isinstance(part, ToolCall)
            each = {**each, "content_block": {**each["content_block"], "input": json.loads(part.arguments)}}
        if each["type"] != "content_block_delta":
            told.append(each)
    return told


_SIGNED = Situation(name="", parts=(Reasoning("Hm.", OpaqueState(ANTHROPIC, "x")), HELLO))
_UNSIGNED = [
    each for each in engine_anthropic.stream(_SIGNED) if each["type"] != "content_block_delta" or each["delta"]["type"] != "signature_delta"
]

ANTHROPIC_ODDITIES = (
    _anthropic("input at once in the start of a block", _input_at_once(CALLED), CALLED),
    _anthropic(
        "padded JSON and no names of events",
        [],
        CALLED,
        wire=b"".join(b"data: " + json.dumps(each).encode()[:-1] + b"      }\n\n" for each in engine_anthropic.stream(CALLED)),
    ),
    _anthropic(
        "counts only at the end",
        [
            {**each, "message": {**each["message"], "usage": {"input_tokens": 0, "output_tokens": 0}}} if "message" in each else each
            for each in engine_anthropic.stream(SPOKEN)
            if each["type"] != "ping"
        ],
        SPOKEN,
    ),
    _anthropic("thinking that nobody signed", _UNSIGNED, Situation(name="", parts=(Reasoning("Hm."), HELLO))),
)


def _responses(name: str, told: list[dict[str, Any]], means: Situation, *, mended: bool = True, wire: bytes | None = None) -> Oddity:
    stream = engine_responses.events(told) if wire is None else wire
    return Oddity(replace(means, name=name, whole=()), RESPONSES, Wire(stream, None), mended)


def _without(means: Situation, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in engine_responses.stream(means) if not each["type"].endswith(kinds)]


BOTH = replace(CALLED, parts=(HELLO, PARIS, ROME))
_THOUGHT = Situation(name="", parts=(Reasoning("Hm."), HELLO))


def _reasoning_text() -> list[dict[str, Any]]:
    """Engines of open weights tell reasoning as content, not as a summary."""
    item: dict[str, Any] = {"id": "rs_0", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    place = {"output_index": 0, "item_id": "rs_0", "content_index": 0}
    usual = engine_responses.stream(_THOUGHT)
    rest = [each for each in usual[2:-1] if each["output_index"] == 1]
    final = usual[-1]["response"]
    return [
        *usual[:2],
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.reasoning_text.delta", **place, "delta": "H"},
        {"type": "response.reasoning_text.delta", **place, "delta": "m."},
        {"type": "response.reasoning_text.done", **place, "text": "Hm."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *rest,
        {**usual[-1], "response": {**final, "output": [item, final["output"][1]]}},
    ]


RESPONSES_ODDITIES = (
    _responses("arguments only when they are done", _without(CALLED, "arguments.delta"), CALLED),
    _responses("items only when they are done", _without(BOTH, ".delta", ".added", "text.done", "part.done", "arguments.done"), BOTH),
    _responses("no events for parts of content", _without(BOTH, "part.added", "part.done"), BOTH),
    _responses(
        "an event of an unknown kind",
        [*(told := engine_responses.stream(BOTH))[:3], {"type": "keepalive"}, *told[3:]],
        BOTH,
        mended=False,
    ),
    _responses("the answer in the last event alone", [(each := engine_responses.stream(BOTH))[0], each[-1]], BOTH),
    _responses("no beginning", engine_responses.stream(BOTH)[1:], BOTH),
    _responses("an item that begins twice", [*(begun := engine_responses.stream(BOTH))[:3], *begun[2:]], BOTH),
    _responses("reasoning as content", _reasoning_text(), _THOUGHT),
    _responses(
        "no names of events, no numbers, and [DONE]",
        [],
        BOTH,
        wire=b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in engine_responses.stream(BOTH)) + b"data: [DONE]\n\n",
    ),
)

ODDITIES = tuple(
    replace(odd, situation=replace(odd.situation, callers=tuple(each for each in ALL if odd.mended or each != odd.target)))
    for odd in (*CHAT_ODDITIES, *ANTHROPIC_ODDITIES, *RESPONSES_ODDITIES)
)
