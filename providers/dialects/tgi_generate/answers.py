"""Answers to generate as events: tokens on lines, as server-sent events or bare, and whole answers, which may be in a list.

Sources: router/src/lib.rs (GenerateResponse, StreamResponse) of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema"; read 2026-11.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from providers.chat import ChatResponse, Choice, Text, Usage
from providers.errors import CutShort, Failed, Garbled
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended

# No engine has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40
_ENDINGS: Mapping[str, tuple[str, str | None]] = {
    "length": ("length", None),
    "eos_token": ("stop", None),
    "stop_sequence": ("stop", "stop_sequence"),
}
_TEXT = Text("")


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
    spaced: str | None = field(default=None, name="finish reason")
    generated_tokens: int | None = None
    input_length: int | None = None
    prefill: list[Raw] | None = None
    tokens: list[_Token] | None = None
    top_tokens: list[list[_Token]] | None = None


class _Said(Struct):
    """`outputs`: of LMI without continuous batching, which says nothing else, its end neither."""

    token: _Token | None = None
    top_tokens: list[_Token] | None = None
    generated_text: str | None = None
    details: _Details | None = None
    outputs: list[str] | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(_Said).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. Without details it did not say why it ended: then it was done."""
    told = _read(_first(raw))
    if told.generated_text is None:
        raise Garbled("The engine's answer holds no generated text.")
    details = told.details or _Details()
    reason, word = _ending(details)
    logprobs = _logprobs(details.tokens or (), details.top_tokens or ())
    choice = Choice((Text(told.generated_text),) if told.generated_text else (), reason, logprobs or None, word)
    return ChatResponse((choice,), "", None, _usage(details))


class TokenReader:
    """See providers.dialect.Reader."""

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self.done = False
        self._rest = b""
        self._limit = limit_bytes
        self._started = False
        self._open = False
        self._endless = False

    def feed(self, block: bytes) -> Iterator[Event]:
        *lines, self._rest = (self._rest + block).split(b"\n")
        if len(self._rest) > self._limit:
            raise Garbled(f"The engine sent a line of more than {self._limit} bytes.")
        for line in lines:
            yield from self._read_line(line)

    def end(self) -> Iterator[Event]:
        """Raises CutShort if the stream ended before the answer did. Half a line at the end is none."""
        try:
            events = list(self._read_line(self._rest))
        except Garbled:
            events = []
        yield from events
        if self.done:
            return
        if not self._endless:
            raise CutShort("The engine ended its answer midway: it did not say why.")
        self.done = True
        yield from self._finish("stop", None)

    def _read_line(self, line: bytes) -> Iterator[Event]:
        line = line.strip().removeprefix(b"data:").strip()
        if self.done or not line or line[:1] == b":" or line == b"[DONE]":
            return
        told = _read(line)
        if not self._started:
            self._started = True
            yield Started("")
        if told.outputs is not None:
            self._endless = True
            yield from self._say("".join(told.outputs))
        if told.token is not None and not (told.token.special or told.token.special_token):
            yield from self._say(told.token.text or "")
            logprobs = _logprobs((told.token,), () if told.top_tokens is None else (told.top_tokens,))
            if logprobs:
                yield Logprobs(0, logprobs)
        if told.details is not None or told.generated_text is not None:
            details = told.details or _Details()
            reason, word = _ending(details)
            if not self._open:
                yield from self._say(told.generated_text or "")
            self.done = True
            yield from self._finish(reason, word)
            usage = _usage(details)
            if usage is not None:
                yield Counted(usage)

    def _say(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if not self._open:
            self._open = True
            yield Opened(0, 0, _TEXT)
        yield Delta(0, 0, text)

    def _finish(self, reason: str, word: str | None) -> Iterator[Event]:
        if self._open:
            yield Closed(0, 0)
        yield Finished(0, reason, word)


def _first(raw: bytes) -> bytes:
    """Of a list of answers to one prompt: that one."""
    if raw.lstrip()[:1] != b"[":
        return raw
    try:
        answers = _decode_list(raw)
    except UNREADABLE:
        answers = []
    return bytes(answers[0]) if answers else raw


def _read(raw: bytes) -> _Said:
    try:
        told = _decode(raw)
        if told.error == NULL:
            return told
    except UNREADABLE:
        pass
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not one to a request to generate: {fault}.") from None


def _ending(details: _Details) -> tuple[str, str | None]:
    reason = details.finish_reason or details.spaced or "eos_token"
    if reason == "error":
        raise Failed("The engine says that it failed, and not why.")
    return _ENDINGS.get(reason, ("stop", reason))


def _usage(details: _Details) -> Usage | None:
    """What was read it tells at the end of streams, and not of whole answers, but for its tokens one by one where it was asked for them."""
    read = details.input_length if details.input_length is not None else len(details.prefill or ()) or None
    usage = Usage(input=_possible(read), output=_possible(details.generated_tokens))
    return None if usage == Usage() else usage


def _possible(count: int | None) -> int | None:
    return count if count is not None and 0 <= count <= _MOST_TOKENS else None


def _logprobs(tokens: Sequence[_Token], others: Sequence[Sequence[_Token]]) -> tuple[Raw, ...]:
    """As OpenAI says them, without those of special tokens, which are no text."""
    told: list[Raw] = []
    for at, token in enumerate(tokens):
        chance = _chance(token)
        if chance is None or token.special or token.special_token:
            continue
        beside = others[at] if at < len(others) else ()
        tops = [{"token": other.text or "", "logprob": _chance(other), "bytes": None} for other in beside]
        entry = {"token": token.text or "", "logprob": chance, "bytes": None, "top_logprobs": tops}
        told.append(Raw(msgspec.json.encode(entry)))
    return tuple(told)


def _chance(token: _Token) -> float | None:
    return token.logprob if token.logprob is not None else token.log_prob
