"""The byte edit of /v1/messages, complete and streamed: id and model are ours, the rest stays the engine's own bytes."""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.token_estimate import written_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.anthropic.errors import find_anthropic_error
from providers.dialects.anthropic_messages.finish_reasons import EMPTY_ANSWER, check_empty_answer, known_stop_reason, read_stop_reason
from providers.dialects.anthropic_messages.usage import Counts, merge_counts, read_counts, to_usage, with_known_tier, write_usage
from providers.stream_editor import SSEStreamEditor, text_pattern


class _MessageEnd(Struct):
    content: list[Raw]
    stop_reason: str | None = None
    usage: Raw = NULL


class _StopDelta(Struct):
    stop_reason: str | None = None


class _EventHead(Struct):
    type: str = ""
    index: Raw = NULL
    delta: Raw = NULL
    message: dict[str, Raw] | None = None
    usage: Raw = NULL


_message_end_decoder = msgspec.json.Decoder(_MessageEnd)
_head_decoder = msgspec.json.Decoder(_EventHead)
_stop_delta_decoder = msgspec.json.Decoder(_StopDelta)
_delta_fields_decoder = msgspec.json.Decoder(dict[str, Raw])

_BLOCK_EVENTS = frozenset({"content_block_start", "content_block_stop"})
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


# A text that holds these characters has them escaped.
_TOOL_USE = b'"tool_use"'
_is_text_block = re.compile(rb'"type"\s*:\s*"(?:text|thinking)"').search
_find_texts = text_pattern("text", "thinking").findall
_ZERO_USAGE = Raw(b'{"input_tokens":0,"output_tokens":0}')


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """Adds what the official SDKs require and the engine left out.

    Raises the error of a response with status 200, or InvalidUpstreamResponse.
    """
    body = Body.read_response(raw)
    error = find_anthropic_error(body)
    if error is not None:
        raise error
    try:
        message_end = _message_end_decoder.decode(body.write())
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not a message: {decode_error}.") from None
    if not message_end.content and message_end.stop_reason is None:
        raise InvalidUpstreamResponse("The engine's answer is a message without content and without a stop reason.")
    model = read_model_name(body.get("model"))
    estimate = None
    usage = to_usage(read_counts(message_end.usage))
    if (usage is None or not (usage.input or usage.output)) and not any(_holds_content(bytes(block)) for block in message_end.content):
        check_empty_answer(message_end.stop_reason or "end_turn")
    if usage is None:
        estimate = written_tokens(body["content"])
        body["usage"] = msgspec.Raw(msgspec.json.encode(write_usage(meta.estimate_usage(estimate))))
    _fill_required_fields(body, meta)
    has_tool_calls = any(_TOOL_USE in bytes(block) for block in message_end.content)
    # Content without a stop reason is read as complete, as from engines of all dialects.
    stop_reason = message_end.stop_reason or ("tool_use" if has_tool_calls else "end_turn")
    finish_reason = recorded_finish_reason(*read_stop_reason(stop_reason))
    body["stop_reason"] = known_stop_reason(stop_reason, has_tool_calls=has_tool_calls)
    return OutboundResponse(body.write(), usage, finish_reason, model, estimate)


def _holds_content(block: bytes) -> bool:
    """Whether a block, or the event that starts it, is more than an empty text: a text, or a call or another kind."""
    return _is_text_block(block) is None or any(_find_texts(block))


def _fill_required_fields(message: dict[str, Any], meta: ResponseMeta) -> None:
    """Sets our id and model, and whatever the official SDKs require of a message. Some engines leave it out (llm-d, in its streams)."""
    message["id"], message["model"] = "msg_" + meta.id, meta.model
    message["type"], message["role"] = "message", "assistant"
    if message.get("content", NULL) == NULL:
        message["content"] = []
    message.setdefault("stop_reason", None)
    message.setdefault("stop_sequence", None)
    usage = message.get("usage", NULL)
    message["usage"] = _ZERO_USAGE if usage == NULL else with_known_tier(usage)


class MessagesStreamEditor(SSEStreamEditor):
    """A stream editor of Messages. `finish_reason` is that of OpenAI chat."""

    missing_end = "no stop reason came"
    written_texts = text_pattern("text", "thinking", "partial_json")

    def __init__(self, meta: ResponseMeta) -> None:
        super().__init__(meta)
        self._message_started = False
        self._has_tool_calls = False
        self._withheld: list[bytes] = []
        self._counts: Counts | None = None
        self._has_blocks = False  # that are more than empty texts
        self._last_index = NULL  # as the engine wrote it

    def _write_end(self) -> bytes:
        """The official SDKs wait for message_stop, which some engines leave out."""
        usage = self.usage
        is_answer = self._has_blocks or self.written_bytes or (usage is not None and (usage.input or usage.output))
        if not is_answer and self.finish_reason not in ("length", "content_filter"):
            raise InvalidUpstreamResponse(EMPTY_ANSWER)
        return b"".join(self._withheld) + _MESSAGE_STOP

    def _edit_event(self, data: bytes) -> bytes:
        try:
            head = _head_decoder.decode(data)
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                self.done = True
                return b""
            data = repair_unicode(data)
            head = _decode_head(data)
        kind = head.type
        if kind == "content_block_delta":
            if head.index == NULL or bytes(head.index)[:1] == b'"':
                data = self._with_index(head, data)
            self._count_delta(data)
            frame = b"event: content_block_delta\ndata: " + data + b"\n\n"
            return frame if self.finish_reason is None else self._pass_or_withhold(frame)
        match kind:
            case "message_start":
                return self._edit_message_start(head.message or {})
            case "message_delta":
                return self._pass_or_withhold(self._edit_message_delta(head, data))
            case "message_stop":
                self.done = True
                return b""
            case "error" | "":
                raise find_anthropic_error(Body.read_response(data)) or InvalidUpstreamResponse("The engine's event has no type.")
            case _:
                if kind in _BLOCK_EVENTS and (head.index == NULL or bytes(head.index)[:1] == b'"'):
                    data = self._with_index(head, data)
                if kind == "content_block_start":
                    self._last_index = head.index
                    self._has_tool_calls = self._has_tool_calls or _TOOL_USE in data
                    self._has_blocks = self._has_blocks or _holds_content(data)
                return self._pass_or_withhold(_event_frame(kind, data))

    def _with_index(self, head: _EventHead, data: bytes) -> bytes:
        """The event of a block with its index as a number. Without one it is the block that began last, or the next one."""
        index = _read_index(head.index)
        if index is None:
            last = _read_index(self._last_index)
            begins = head.type == "content_block_start"
            index = 0 if last is None else last + begins
        head.index = Raw(b"%d" % index)
        body = Body.read_response(data)
        body["index"] = head.index
        return body.write()

    def _pass_or_withhold(self, event: bytes) -> bytes:
        """Holds events back from the stop reason on."""
        if self.finish_reason is None:
            return event
        self._withheld.append(event)
        return b""

    def _edit_message_start(self, message: dict[str, Any]) -> bytes:
        """Some vendors send it twice; the second is dropped, as clients would start again."""
        self._update_usage(message.get("usage"))
        if self._message_started:
            return b""
        self._message_started = True
        self.model = read_model_name(message.get("model"))
        _fill_required_fields(message, self._meta)
        return _event_frame("message_start", msgspec.json.encode({"type": "message_start", "message": message}))

    def _edit_message_delta(self, head: _EventHead, data: bytes) -> bytes:
        self._update_usage(head.usage)
        try:
            stop_reason = None if head.delta == NULL else _stop_delta_decoder.decode(head.delta).stop_reason
        except DECODE_ERRORS as decode_error:
            raise InvalidUpstreamResponse(f"The engine's event is not one of a stream of messages: {decode_error}.") from None
        if stop_reason is not None and self.finish_reason is None:
            self.finish_reason = recorded_finish_reason(*read_stop_reason(stop_reason))
        if stop_reason is not None:
            known_reason = known_stop_reason(stop_reason, has_tool_calls=self._has_tool_calls)
            if known_reason != stop_reason:
                body = Body.read_response(data)
                body["delta"] = {**_delta_fields_decoder.decode(head.delta), "stop_reason": known_reason}
                data = body.write()
        if head.usage == NULL or head.delta == NULL or self.usage is None:
            # The official SDKs cannot do without either, nor without counts.
            body = Body.read_response(data)
            if head.delta == NULL:
                body["delta"] = {"stop_reason": None, "stop_sequence": None}
            if self.usage is None:
                body["usage"] = write_usage(self._meta.estimate_usage(self.written_tokens))
            elif head.usage == NULL:
                body["usage"] = {"output_tokens": self.usage.output or 0}
            data = body.write()
        return _event_frame("message_delta", data)

    def _update_usage(self, usage: Raw | None) -> None:
        self._counts = merge_counts(self._counts, read_counts(usage))
        self.usage = to_usage(self._counts)


def _event_frame(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _read_index(raw: Raw) -> int | None:
    """The index of a block, a string too; None: there is none."""
    text = bytes(raw).strip(b'"')
    return int(text) if text.isdigit() else None


def _decode_head(data: bytes) -> _EventHead:
    try:
        return _head_decoder.decode(data)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's event is not one of a stream of messages: {decode_error}.") from None
