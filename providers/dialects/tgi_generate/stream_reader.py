"""Answers to generate as events: tokens on lines, as server-sent events or bare, and whole answers, which may be in a list.

Sources: router/src/lib.rs (GenerateResponse, StreamResponse) of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema"; read 2026-11.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, UpstreamFailed
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40
_FINISH_REASONS: Mapping[str, tuple[str, str | None]] = {
    "length": ("length", None),
    "eos_token": ("stop", None),
    "stop_sequence": ("stop", "stop_sequence"),
}
_EMPTY_TEXT = Text("")


class _Token(Struct):
    """`log_prob`, `special_token`: LMI's words."""

    text: str | None = None
    logprob: float | None = None
    log_prob: float | None = None
    special: bool = False
    special_token: bool = False


class _Details(Struct):
    """`spaced`: so it stands in LMI's documentation; in its code, and on its streams, it is the other."""

    finish_reason: str | None = None
    finish_reason_spaced: str | None = field(default=None, name="finish reason")
    generated_tokens: int | None = None
    input_length: int | None = None
    prefill: list[Raw] | None = None
    tokens: list[_Token] | None = None
    top_tokens: list[list[_Token]] | None = None


class _Chunk(Struct):
    """`outputs`: of LMI without continuous batching, which says nothing else, its end neither."""

    token: _Token | None = None
    top_tokens: list[_Token] | None = None
    generated_text: str | None = None
    details: _Details | None = None
    outputs: list[str] | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. Without details it did not say why it ended: then it was done."""
    chunk = _decode_chunk(_first_response(raw))
    if chunk.generated_text is None:
        raise InvalidUpstreamResponse("The engine's answer holds no generated text.")
    details = chunk.details or _Details()
    finish_reason, upstream_finish_reason = _read_finish_reason(details)
    logprobs = _logprobs(details.tokens or (), details.top_tokens or ())
    choice = Choice((Text(chunk.generated_text),) if chunk.generated_text else (), finish_reason, logprobs or None, upstream_finish_reason)
    return ChatResponse((choice,), "", None, _read_usage(details))


class GenerateStreamReader:
    """See providers.dialect.Reader."""

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self.done = False
        self._buffer = b""
        self._limit_bytes = limit_bytes
        self._started = False
        self._text_open = False
        self._has_no_end_marker = False

    def feed(self, block: bytes) -> Iterator[Event]:
        *lines, self._buffer = (self._buffer + block).split(b"\n")
        if len(self._buffer) > self._limit_bytes:
            raise InvalidUpstreamResponse(f"The engine sent a line of more than {self._limit_bytes} bytes.")
        for line in lines:
            yield from self._read_line(line)

    def finish(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a line at the end is none."""
        try:
            events = list(self._read_line(self._buffer))
        except InvalidUpstreamResponse:
            events = []
        yield from events
        if self.done:
            return
        if not self._has_no_end_marker:
            raise StreamTruncated("The engine ended its answer midway: it did not say why.")
        self.done = True
        yield from self._finish_choice("stop", None)

    def _read_line(self, line: bytes) -> Iterator[Event]:
        line = line.strip().removeprefix(b"data:").strip()
        if self.done or not line or line[:1] == b":" or line == b"[DONE]":
            return
        chunk = _decode_chunk(line)
        if not self._started:
            self._started = True
            yield ResponseStarted("")
        if chunk.outputs is not None:
            self._has_no_end_marker = True
            yield from self._append_text("".join(chunk.outputs))
        if chunk.token is not None and not (chunk.token.special or chunk.token.special_token):
            yield from self._append_text(chunk.token.text or "")
            logprobs = _logprobs((chunk.token,), () if chunk.top_tokens is None else (chunk.top_tokens,))
            if logprobs:
                yield Logprobs(0, logprobs)
        if chunk.details is not None or chunk.generated_text is not None:
            details = chunk.details or _Details()
            finish_reason, upstream_finish_reason = _read_finish_reason(details)
            if not self._text_open:
                yield from self._append_text(chunk.generated_text or "")
            self.done = True
            yield from self._finish_choice(finish_reason, upstream_finish_reason)
            usage = _read_usage(details)
            if usage is not None:
                yield UsageReported(usage)

    def _append_text(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if not self._text_open:
            self._text_open = True
            yield PartStarted(0, 0, _EMPTY_TEXT)
        yield PartDelta(0, 0, text)

    def _finish_choice(self, finish_reason: str, upstream_finish_reason: str | None) -> Iterator[Event]:
        if self._text_open:
            yield PartFinished(0, 0)
        yield ChoiceFinished(0, finish_reason, upstream_finish_reason)


def _first_response(raw: bytes) -> bytes:
    """Of a list of answers to one prompt: that one."""
    if raw.lstrip()[:1] != b"[":
        return raw
    try:
        responses = _decode_list(raw)
    except DECODE_ERRORS:
        responses = []
    return bytes(responses[0]) if responses else raw


def _decode_chunk(raw: bytes) -> _Chunk:
    try:
        chunk = _decode(raw)
        if chunk.error == NULL:
            return chunk
    except DECODE_ERRORS:
        pass
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return _decode(repair_unicode(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer is not one to a request to generate: {decode_error}.") from None


def _read_finish_reason(details: _Details) -> tuple[str, str | None]:
    reason = details.finish_reason or details.finish_reason_spaced or "eos_token"
    if reason == "error":
        raise UpstreamFailed("The engine says that it failed, and not why.")
    return _FINISH_REASONS.get(reason, ("stop", reason))


def _read_usage(details: _Details) -> Usage | None:
    """What was read it tells at the end of streams, and not of whole answers, but for its tokens one by one where it was asked for them."""
    input_tokens = details.input_length if details.input_length is not None else len(details.prefill or ()) or None
    usage = Usage(input=_plausible(input_tokens), output=_plausible(details.generated_tokens))
    return None if usage == Usage() else usage


def _plausible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MAX_TOKENS else None


def _logprobs(tokens: Sequence[_Token], alternatives_by_token: Sequence[Sequence[_Token]]) -> tuple[Raw, ...]:
    """As OpenAI says them, without those of special tokens, which are no text."""
    entries: list[Raw] = []
    for index, token in enumerate(tokens):
        logprob = _logprob(token)
        if logprob is None or token.special or token.special_token:
            continue
        alternatives = alternatives_by_token[index] if index < len(alternatives_by_token) else ()
        tops = [{"token": other.text or "", "logprob": _logprob(other), "bytes": None} for other in alternatives]
        entry = {"token": token.text or "", "logprob": logprob, "bytes": None, "top_logprobs": tops}
        entries.append(Raw(msgspec.json.encode(entry)))
    return tuple(entries)


def _logprob(token: _Token) -> float | None:
    return token.logprob if token.logprob is not None else token.log_prob
