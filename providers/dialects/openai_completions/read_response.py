"""Whole completions as meaning and back. Text is all that they say: other parts of an answer have no place in them.

Source: https://platform.openai.com/docs/api-reference/completions/object, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ResponseStarted
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error
from providers.dialect import ResponseMeta
from providers.dialects.openai.stream_editor import check_finish_reason
from providers.dialects.openai.usage import read_usage, write_usage
from providers.dialects.openai_completions.logprobs import read_logprobs, write_logprobs


class _WireChoice(Struct):
    text: str | None = None
    index: int | None = 0
    finish_reason: str | None = None
    logprobs: Raw = NULL
    stop_reason: Raw = NULL


class _WireResponse(Struct):
    choices: list[_WireChoice] | None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    error: Raw = NULL
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decode_wire_response = msgspec.json.Decoder(_WireResponse).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode


def decode_response(raw: bytes) -> _WireResponse:
    """Raises the error that it tells, or Garbled."""
    try:
        parsed = _decode_wire_response(raw)
        if parsed.error is NULL or parsed.error == NULL:
            return parsed
    except DECODE_ERRORS:
        pass
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return _decode_wire_response(repair_unicode(raw))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a completion: {exc}.") from None


def read_finish_reason(choice: _WireChoice) -> tuple[str, str | None, str | None] | None:
    """Reason, the engine's own word, stop sequence. Raises Failed for a reason that is one."""
    reason = choice.finish_reason
    if not reason:
        return None
    check_finish_reason(reason)
    stopped_by = _read_stop_sequence(choice.stop_reason)
    if stopped_by is not None and reason == "stop":
        return reason, "stop_sequence", stopped_by
    return (reason, None, None) if reason in ("stop", "length", "content_filter") else ("stop", reason, None)


def _read_stop_sequence(raw: Raw) -> str | None:
    """vLLM tells a number for a token that stopped it."""
    if raw is NULL:
        return None
    try:
        return _decode_text(raw) or None
    except DECODE_ERRORS:
        return None


def read_response_usage(parsed: _WireResponse) -> Usage | None:
    return None if parsed.usage is NULL or parsed.usage == NULL else read_usage(parsed.usage, parsed.service_tier)


def read_started(parsed: _WireResponse) -> ResponseStarted:
    created = None if parsed.created is None else int(parsed.created)
    return ResponseStarted(parsed.model or "", created, parsed.system_fingerprint or None, parsed.service_tier or None)


def read_response(raw: bytes) -> ChatResponse:
    parsed = decode_response(raw)
    head = read_started(parsed)
    choices = tuple(_read_choice(choice) for choice in sorted(parsed.choices or (), key=lambda choice: choice.index or 0))
    return ChatResponse(choices, head.model, head.created, read_response_usage(parsed), head.system_fingerprint, head.service_tier)


def _read_choice(choice: _WireChoice) -> Choice:
    parts = (Text(choice.text),) if choice.text else ()
    logprobs = None if choice.logprobs is NULL else read_logprobs(choice.logprobs)
    ending = read_finish_reason(choice)
    return Choice(parts, None, logprobs) if ending is None else Choice(parts, ending[0], logprobs, ending[1], ending[2])


def response_head(meta: ResponseMeta, created: int | None) -> dict[str, Any]:
    return {
        "id": f"cmpl-{meta.id}",
        "object": "text_completion",
        "created": created or meta.created,
        "model": meta.model,
        "episode_id": meta.episode_id,
    }


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    body = {
        **response_head(meta, response.created),
        "choices": [_write_choice(index, choice) for index, choice in enumerate(response.choices)],
    }
    if response.system_fingerprint is not None:
        body["system_fingerprint"] = response.system_fingerprint
    if response.service_tier is not None:
        body["service_tier"] = response.service_tier
    if response.usage is not None:
        body["usage"] = write_usage(response.usage)
    return _encode(body)


def _write_choice(index: int, choice: Choice) -> dict[str, Any]:
    text = "".join(part.text for part in choice.parts if isinstance(part, Text))
    logprobs = None if choice.logprobs is None else write_logprobs(choice.logprobs, 0)
    return {"index": index, "text": text, "logprobs": logprobs, **write_finish_reason(choice.finish_reason, choice.stop_sequence)}


def write_finish_reason(reason: str | None, stop_sequence: str | None) -> dict[str, Any]:
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
