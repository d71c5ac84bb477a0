"""Whole completions as meaning and back. Text is all that they say: other parts of an answer have no place in them.

Source: https://platform.openai.com/docs/api-reference/completions/object, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatResponse, Choice, Text, Usage
from providers.dialect import Stamp
from providers.dialects.openai_completions.logprobs import read_logprobs, write_logprobs
from providers.errors import Garbled
from providers.events import Started
from providers.openai_stream import check_ending
from providers.openai_usage import read_usage, write_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended


class _Choice(Struct):
    text: str | None = None
    index: int | None = 0
    finish_reason: str | None = None
    logprobs: Raw = NULL
    stop_reason: Raw = NULL


class _Answer(Struct):
    choices: list[_Choice] | None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    error: Raw = NULL
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decode = msgspec.json.Decoder(_Answer).decode
_read_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


def read_answer(raw: bytes) -> _Answer:
    """Raises the error that it tells, or Garbled."""
    try:
        told = _decode(raw)
        if told.error is NULL or told.error == NULL:
            return told
    except UNREADABLE:
        pass
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a completion: {fault}.") from None


def read_ending(choice: _Choice) -> tuple[str, str | None, str | None] | None:
    """Reason, the engine's own word, stop sequence. Raises Failed for a reason that is one."""
    reason = choice.finish_reason
    if not reason:
        return None
    check_ending(reason)
    stopped_by = _stopped_by(choice.stop_reason)
    if stopped_by is not None and reason == "stop":
        return reason, "stop_sequence", stopped_by
    return (reason, None, None) if reason in ("stop", "length", "content_filter") else ("stop", reason, None)


def _stopped_by(told: Raw) -> str | None:
    """vLLM tells a number for a token that stopped it."""
    if told is NULL:
        return None
    try:
        return _read_text(told) or None
    except UNREADABLE:
        return None


def usage_of(told: _Answer) -> Usage | None:
    return None if told.usage is NULL or told.usage == NULL else read_usage(told.usage, told.service_tier)


def started(told: _Answer) -> Started:
    created = None if told.created is None else int(told.created)
    return Started(told.model or "", created, told.system_fingerprint or None, told.service_tier or None)


def read_response(raw: bytes) -> ChatResponse:
    told = read_answer(raw)
    head = started(told)
    choices = tuple(_read_choice(choice) for choice in sorted(told.choices or (), key=lambda choice: choice.index or 0))
    return ChatResponse(choices, head.model, head.created, usage_of(told), head.system_fingerprint, head.service_tier)


def _read_choice(choice: _Choice) -> Choice:
    parts = (Text(choice.text),) if choice.text else ()
    logprobs = None if choice.logprobs is NULL else read_logprobs(choice.logprobs)
    ending = read_ending(choice)
    return Choice(parts, None, logprobs) if ending is None else Choice(parts, ending[0], logprobs, ending[1], ending[2])


def write_head(stamp: Stamp, created: int | None) -> dict[str, Any]:
    return {
        "id": f"cmpl-{stamp.id}",
        "object": "text_completion",
        "created": created or stamp.created,
        "model": stamp.model,
        "episode_id": stamp.episode_id,
    }


def write_response(answer: ChatResponse, stamp: Stamp) -> bytes:
    body = {**write_head(stamp, answer.created), "choices": [_write_choice(index, choice) for index, choice in enumerate(answer.choices)]}
    if answer.system_fingerprint is not None:
        body["system_fingerprint"] = answer.system_fingerprint
    if answer.service_tier is not None:
        body["service_tier"] = answer.service_tier
    if answer.usage is not None:
        body["usage"] = write_usage(answer.usage)
    return _encode(body)


def _write_choice(index: int, choice: Choice) -> dict[str, Any]:
    text = "".join(part.text for part in choice.parts if isinstance(part, Text))
    logprobs = None if choice.logprobs is None else write_logprobs(choice.logprobs, 0)
    return {"index": index, "text": text, "logprobs": logprobs, **write_ending(choice.finish_reason, choice.stop_sequence)}


def write_ending(reason: str | None, stop_sequence: str | None) -> dict[str, Any]:
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
