"""The byte edit of generate: `request_id`, `model` and `usage` are ours, the rest stays the engine's own bytes.

`request_id` of the response is the inference's id, by which it can be found again, even if the caller sent a `request_id`: that one
goes to the engine.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.sse import sse_frame
from providers.canonical.upstream_errors import find_error
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai.usage import read_usage
from providers.stream_editor import SSEStreamEditor

_ABSENT = Raw(b"null")


class _ChoiceHead(Struct):
    """The fields of a choice that are read."""

    index: int = 0
    finish_reason: str | None = None
    token_ids: Raw = _ABSENT  # null where the engine wrote no token; a complete choice without the field is none


_heads_decoder = msgspec.json.Decoder(list[_ChoiceHead])


def _token_count(head: _ChoiceHead) -> int:
    """How many token ids a choice has. The commas are counted: there is no need to parse the ids."""
    ids = bytes(head.token_ids)
    return ids.count(b",") + 1 if ids.startswith(b"[") and ids.strip(b"[] \t\r\n") else 0


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A complete response. Raises InvalidUpstreamResponse, or the error that an engine reported with status 200."""
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    try:
        heads = _heads_decoder.decode(body.get("choices", NULL))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer holds no choices of token ids: {decode_error}.") from None
    if not heads:
        raise InvalidUpstreamResponse("The engine's answer has no choices.")
    if any([head.token_ids is _ABSENT for head in heads]):
        raise InvalidUpstreamResponse("A choice of the engine's answer has no token ids.")
    usage = read_usage(body["usage"]) if body.has_value("usage") else None
    if usage is None:
        # vLLM 0.21 reported none (llm-d's reference of it). The output can be counted, and the input is known from the request.
        usage = Usage(None, sum(map(_token_count, heads)))
    model = read_model_name(body.get("model"))
    _set_identity(body, meta)
    return OutboundResponse(body.write(), usage, min(heads, key=_index).finish_reason, model)


def _index(head: _ChoiceHead) -> int:
    return head.index


def _set_identity(body: Body, meta: ResponseMeta) -> None:
    body["request_id"] = meta.id
    if body.has_value("model"):
        body["model"] = meta.model


class TokenStreamEditor(SSEStreamEditor):
    """A stream editor that sends usage as vLLM does, in a last frame without choices, if the caller wants it.

    A chunk that finishes a choice is held back, and so is everything behind it, until a choice continues that has not finished: only
    [DONE] says that none will. `finish_reason` is that of the first choice.
    """

    def __init__(self, meta: ResponseMeta) -> None:
        super().__init__(meta)
        self._withheld: list[bytes] = []
        self._finished: set[int] = set()
        self._token_count = 0

    @property
    def written_tokens(self) -> int:
        return self._token_count

    def _write_end(self) -> bytes:
        return self._release_withheld() + b"data: [DONE]\n\n"

    def _release_before_failure(self) -> bytes:
        return self._release_withheld()

    def _edit_event(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_response(data)
        if "error" in body or "choices" not in body:
            error = find_error(body)
            if error is not None:
                raise error
        usage: Any = body.get("usage", NULL)
        choices = body.get("choices", NULL)
        if choices == NULL and usage == NULL:
            return b""  # a ping, or another object that is no chunk
        try:
            heads = [] if choices == NULL else _heads_decoder.decode(choices)
        except DECODE_ERRORS as decode_error:
            raise InvalidUpstreamResponse(f"The engine's chunk holds no choices of token ids: {decode_error}.") from None
        _set_identity(body, self._meta)
        if usage != NULL:
            # Chunks with choices may report it too (continuous_usage_stats), but for that choice only.
            self.usage = self.usage if heads else read_usage(usage)
            if not self._meta.wants_usage:
                if not heads:
                    return b""
                body["usage"] = NULL
        return self._withhold_finish(heads, sse_frame(body.write()))

    def _withhold_finish(self, heads: list[_ChoiceHead], chunk: bytes) -> bytes:
        finishing = continuing = False
        for head in heads:
            self._token_count += _token_count(head)
            if head.finish_reason:
                finishing = True
                if head.index not in self._finished and (head.index == 0 or self.finish_reason is None):
                    self.finish_reason = head.finish_reason
                self._finished.add(head.index)
            elif head.index not in self._finished:
                continuing = True
        if self._withheld and not finishing and not continuing:
            self._withheld.append(chunk)
            return b""
        released = self._release_withheld()
        if finishing:
            self._withheld.append(chunk)
            return released
        return released + chunk

    def _release_withheld(self) -> bytes:
        withheld, self._withheld = self._withheld, []
        return b"".join(withheld)
