"""The response that each caller must get for a situation, and the history that the caller's next request must contain."""

import json
import re
from collections.abc import Sequence
from typing import Any

from jiter import from_json

from providers.canonical.chat import Content, Message, Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from tests.conformance.sdk_responses import ESTIMATED_USAGE, SdkPart, SdkResponse, canonical_json, merge_adjacent
from tests.conformance.situations import ANTHROPIC, CHAT, GEMINI, RESPONSES, Situation

_MINTED = re.compile("call_[0-9a-f]{24}")

# A chat message has one field for each kind of part, so it keeps no other order.
_CHAT_ORDER = ("reasoning", "text", "refusal", "call", "custom")


def expected_response(situation: Situation, caller: str, *, streamed: bool) -> SdkResponse:
    """Returns what the caller's SDK must return.

    `streamed` says whether the caller gets a stream: only a stream can hold the truncated arguments of a call.
    """
    parts = [_expected_part(part, caller, streamed=streamed) for part in situation.parts if not isinstance(part, Opaque)]
    if caller == CHAT:
        parts.sort(key=lambda part: _CHAT_ORDER.index(part[0]))
    return SdkResponse(
        parts=merge_adjacent(parts),
        finish=_FINISHES[caller](situation),
        stop_sequence=situation.stop_sequence if caller == ANTHROPIC else None,
        usage=_usage(situation.usage, caller),
        cited_urls=tuple(each.url for part in situation.parts if isinstance(part, Text) for each in part.citations if each.url),
        logprob_tokens=() if caller == ANTHROPIC else tuple(json.loads(bytes(raw))["token"] for raw in situation.logprobs or ()),
        other_choices=situation.other_choices,
    )


def comparable(response: SdkResponse) -> SdkResponse:
    """Returns the response with the arguments of calls as canonical JSON, and without the ids that the gateway mints.

    The arguments need it because Anthropic's format does not keep their spelling.
    """
    return SdkResponse(
        parts=tuple(
            ("call", _blank_if_minted(part[1]), part[2], canonical_json(part[3])) if part[0] == "call" else part for part in response.parts
        ),
        finish=response.finish,
        stop_sequence=response.stop_sequence,
        usage=response.usage,
        cited_urls=response.cited_urls,
        logprob_tokens=response.logprob_tokens,
        other_choices=response.other_choices,
    )


def _blank_if_minted(id: str) -> str:
    return "" if _MINTED.fullmatch(id) else id


def _expected_part(part: Part, caller: str, *, streamed: bool) -> SdkPart:
    match part:
        case Text():
            return ("text", part.text)
        case Reasoning():
            return ("reasoning", part.text)
        case Refusal():
            return ("text" if caller in (ANTHROPIC, GEMINI) else "refusal", part.text)
        case ToolCall(custom=True):
            return ("custom", part.id, part.name, part.arguments)
        case ToolCall():
            return (
                "call",
                part.id,
                part.name,
                _anthropic_input(part.arguments, streamed=streamed and caller == ANTHROPIC)
                if caller in (ANTHROPIC, GEMINI)
                else part.arguments,
            )
        case Opaque():
            raise AssertionError("only the engine that wrote an opaque part can read it")


def _anthropic_input(arguments: str, *, streamed: bool) -> str:
    """Returns arguments as Anthropic's SDK returns them.

    If they were streamed, the SDK keeps as much as is JSON; if not, it puts arguments that are not JSON under `_unparsed`.
    """
    if streamed:
        return json.dumps(from_json(arguments.encode() or b"{}", partial_mode=True))
    try:
        return json.dumps(json.loads(arguments or "{}"))
    except ValueError:
        return json.dumps({"_unparsed": arguments})


def _anthropic_finish(situation: Situation) -> str:
    if situation.finish == "content_filter" or any(isinstance(part, Refusal) for part in situation.parts):
        return "refusal"
    if situation.native_finish_reason is not None:
        return situation.native_finish_reason
    if situation.finish == "length":
        return "max_tokens"
    return "tool_use" if any(isinstance(part, ToolCall) for part in situation.parts) else "end_turn"


def _responses_finish(situation: Situation) -> str:
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(situation.finish)
    return "completed" if reason is None else f"incomplete: {reason}"


def _chat_finish(situation: Situation) -> str:
    return situation.finish


def _gemini_finish(situation: Situation) -> str:
    if situation.finish == "content_filter" or any(isinstance(part, Refusal) for part in situation.parts):
        return "SAFETY"
    return "MAX_TOKENS" if situation.finish == "length" else "STOP"


_FINISHES = {CHAT: _chat_finish, RESPONSES: _responses_finish, ANTHROPIC: _anthropic_finish, GEMINI: _gemini_finish}


def _usage(usage: Usage | None, caller: str) -> tuple[int, int, int, int, int]:
    """Usage that the engine does not report is an estimate, and marked. Google does not say what was written to a cache."""
    if usage is None:
        return ESTIMATED_USAGE
    return (
        usage.input or 0,
        usage.output or 0,
        usage.cached or 0,
        usage.reasoning or 0,
        0 if caller == GEMINI else usage.cache_written or 0,
    )


def expected_history(situation: Situation, caller: str, *, streamed: bool) -> list[Any]:
    """The parts of the assistant's message that a caller sends back, as summary() returns them."""
    parts: Sequence[Part] = situation.parts
    if caller in (ANTHROPIC, GEMINI):
        parts = [_as_anthropic_part(part, streamed=streamed and caller == ANTHROPIC) for part in parts]
    return summary(Message("assistant", tuple(parts)), caller)


def _as_anthropic_part(part: Part, *, streamed: bool) -> Part:
    match part:
        case Refusal():
            return Text(part.text)
        case ToolCall():
            arguments = _anthropic_input(part.arguments, streamed=True) if streamed else part.arguments
            return ToolCall(part.id, part.name, arguments, part.custom, part.opaque_state)
        case _:
            return part


def summary(message: Message, caller: str) -> list[Any]:
    """The parts of a message in comparable form, sorted by kind where the caller's dialect keeps no other order."""
    parts = [each for part in message.parts if (each := _summarize_part(part)) is not None]
    if caller == CHAT:
        order = ["reasoning", "opaque", "text", "refusal", "call"]
        parts.sort(key=lambda each: order.index(each[0]))
    out: list[Any] = []
    for each in parts:
        if each[0] == "text" and out and out[-1][0] == "text":
            out[-1] = ("text", out[-1][1] + each[1])
        else:
            out.append(each)
    return out


def _summarize_part(part: Content) -> tuple[Any, ...] | None:
    match part:
        case Text(text=""):
            return None
        case Text():
            return ("text", part.text)
        case Reasoning():
            return ("reasoning", part.text, part.opaque_state)
        case Refusal():
            return ("refusal", part.text)
        case ToolCall():
            return (
                "call",
                _blank_if_minted(part.id),
                part.name,
                part.arguments if part.custom else canonical_json(part.arguments),
                part.custom,
                part.opaque_state,
            )
        case Opaque():
            return ("opaque", part.origin, json.loads(bytes(part.raw)))
        case _:
            raise AssertionError(f"not a part of an assistant's message: {part}")
