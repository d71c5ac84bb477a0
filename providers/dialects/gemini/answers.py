"""Answers of generateContent as events: a whole one, which is one frame that says all, and the frames of a stream."""

import datetime
import hashlib
from collections.abc import Iterator

import msgspec

from providers.chat import ChatResponse
from providers.dialects.gemini.candidates import Answering
from providers.dialects.gemini.endings import blocked
from providers.dialects.gemini.shapes import Frame
from providers.dialects.gemini.usage import read_usage
from providers.errors import Garbled
from providers.events import Counted, Event, Started, fold
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended

_decode = msgspec.json.Decoder(Frame).decode
_bodies = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_MOST_CHOICES = 64


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, Unparsed for an end that is no answer's, or Garbled."""
    saying = Saying()
    answer = fold(saying.read(raw))
    if not answer.choices:
        raise Garbled("The engine's answer has no candidates, and does not say why.")
    return answer


class Saying:
    """All candidates of an answer, as it comes. `ended`: each that began is finished, and one did."""

    def __init__(self) -> None:
        self._of: str | None = None
        self._answers: dict[int, Answering] = {}
        self._taken: set[str] = set()
        self._blocked = False

    @property
    def ended(self) -> bool:
        return self._blocked or (bool(self._answers) and all(answer.finished is not None for answer in self._answers.values()))

    def read(self, raw: bytes) -> Iterator[Event]:
        told = _read(raw)
        if self._of is None:
            self._of = told.responseId or hashlib.sha256(raw).hexdigest()
            yield Started(told.modelVersion, _seconds(told.createTime))
        usage = None if told.usageMetadata is None else read_usage(told.usageMetadata)
        if usage is not None:
            # First: an end that is no answer's is paid for too.
            yield Counted(usage)
        for candidate in told.candidates or ():
            if not 0 <= candidate.index < _MOST_CHOICES:
                raise Garbled(f"The engine numbers an answer {candidate.index}, of {_MOST_CHOICES} that it could give.")
            answer = self._answers.get(candidate.index)
            if answer is None:
                answer = self._answers[candidate.index] = Answering(candidate.index, self._of, self._taken)
            yield from answer.read(candidate)
        if told.promptFeedback is not None and told.promptFeedback.blockReason and not self._answers and not self._blocked:
            self._blocked = True
            yield blocked(told.promptFeedback.blockReason)


def _read(raw: bytes) -> Frame:
    try:
        told = _decode(raw)
    except UNREADABLE:
        told = _otherwise(raw)
    if told.error != NULL:
        error = error_in(Body.read_reply(raw))
        assert error is not None
        raise error
    return told


def _otherwise(raw: bytes) -> Frame:
    """An error may come in an array of one; an answer in an array is one that was not streamed as it was asked to."""
    if raw.lstrip()[:1] == b"[":
        try:
            error = next((error for body in _bodies.decode(mended(raw)) if (error := error_in(body)) is not None), None)
        except UNREADABLE:
            error = None
        raise error or Garbled("The engine answered with an array: it was not asked for server-sent events, or passed over that.")
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is none of generateContent: {fault}.") from None


def _seconds(created: str | None) -> int | None:
    try:
        return None if created is None else int(datetime.datetime.fromisoformat(created).timestamp())
    except (ValueError, OverflowError):
        return None
