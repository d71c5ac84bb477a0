"""One answer of those asked for, as it grows: parts of Gemini's as events, whole ones and those of streams alike."""

import hashlib
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from providers.chat import Reasoning, Seal, Text, ToolCall
from providers.dialects.gemini.endings import finished
from providers.dialects.gemini.grounding import Sources
from providers.dialects.gemini.kinds import NAME, opaque
from providers.dialects.gemini.partial import Arguments
from providers.dialects.gemini.shapes import Call, Candidate, Part
from providers.dialects.gemini.shapes import Logprobs as Told
from providers.errors import Garbled
from providers.events import Closed, Delta, Event, Finished, Logprobs, Opened
from providers.wire import NULL, UNREADABLE, mended

_part = msgspec.json.Decoder(Part)
_object = msgspec.json.Decoder(dict[str, Raw])

# Of a text so much is kept, in characters, until it is known what is cited for it.
_LONGEST_CITED = 4_000_000


class Answering:
    """At most one text, reasoning or call is open. `of`: the answer's own id, of which those of its calls are made."""

    def __init__(self, choice: int, of: str, taken: set[str]) -> None:
        self.finished: Finished | None = None
        self._choice = choice
        self._of = of
        self._taken = taken
        self._count = 0
        self._open: type[Text | Reasoning | ToolCall] | None = None
        self._said: list[str] = []
        self._size = 0
        self._seal: Seal | None = None
        # A signature that came after a text and without one: it waits for the text's end, so that what is cited for it can still come.
        self._after: Seal | None = None
        self._arguments: Arguments | None = None
        self._called = False
        self._signed = False
        self._sources = Sources()

    def read(self, told: Candidate) -> Iterator[Event]:
        """Raises Unparsed for an end that is no answer's, once all before it was given. What follows the end is passed over."""
        if self.finished is not None:
            return
        self._sources.note(told.groundingMetadata, told.citationMetadata)
        for raw in (told.content.parts or ()) if told.content is not None else ():
            yield from self._part(raw)
        if told.logprobsResult is not None:
            entries = _entries(told.logprobsResult)
            if entries:
                yield Logprobs(self._choice, entries)
        if told.finishReason is not None and told.finishReason != "FINISH_REASON_UNSPECIFIED":
            yield from self._close(last=True)
            self.finished = finished(self._choice, told.finishReason, told.finishMessage, called=self._called)
            yield self.finished

    def _part(self, raw: Raw) -> Iterator[Event]:
        raw, part = _read(raw)
        seal = None if not part.thoughtSignature else Seal(NAME, part.thoughtSignature)
        if part.functionCall is not None:
            yield from self._call(part.functionCall, seal)
        elif part.thought and (part.text is not None or seal is not None):
            yield from self._think(part.text or "", seal)
        elif part.text is not None or (seal is not None and set(_object.decode(raw)) == {"thoughtSignature"}):
            yield from self._speak(part.text or "", seal)
        else:
            yield from self._whole(raw)

    def _think(self, text: str, seal: Seal | None) -> Iterator[Event]:
        if self._open is not Reasoning or self._seal is not None:
            yield from self._begin(Reasoning)
        if text:
            yield Delta(self._choice, self._count, text)
        self._seal = seal

    def _speak(self, text: str, seal: Seal | None) -> Iterator[Event]:
        """A signature stands before the text that it came with, as reasoning of which nothing else is told."""
        if seal is not None and not text and self._open is Text and self._after is None:
            self._after = seal
            return
        if seal is not None:
            yield from self._sealed(seal)
        if not text:
            return
        # What comes without a signature was not signed with it.
        if self._open is not Text or self._after is not None or self._signed:
            yield from self._begin(Text)
        if self._size < _LONGEST_CITED:
            self._said.append(text)
            self._size += len(text)
        yield Delta(self._choice, self._count, text)
        self._signed = seal is not None

    def _sealed(self, seal: Seal) -> Iterator[Event]:
        yield from self._close()
        yield Opened(self._choice, self._count, Reasoning(""))
        yield Closed(self._choice, self._count, seal)
        self._count += 1

    def _call(self, call: Call, seal: Seal | None) -> Iterator[Event]:
        """A call that comes in pieces is told once it is whole: their places are those of JSON, and not of its text."""
        if call.name:
            yield from self._begin(ToolCall, ToolCall(self._id(call.id), call.name, ""))
            self._called = True
            self._seal = seal
            if not call.willContinue and call.partialArgs is None:
                yield Delta(self._choice, self._count, _arguments(call.args))
                yield from self._close()
                return
            self._arguments = Arguments()
        elif self._arguments is None:
            raise Garbled("The engine sent more of a call that it had not begun.")
        self._seal = self._seal or seal
        assert self._arguments is not None
        for piece in call.partialArgs or ():
            self._arguments.add(piece)
        if not call.willContinue:
            yield from self._close()

    def _whole(self, raw: Raw) -> Iterator[Event]:
        yield from self._close()
        yield Opened(self._choice, self._count, opaque(_object.decode(raw)))
        yield Closed(self._choice, self._count)
        self._count += 1

    def _begin(self, kind: type[Text | Reasoning | ToolCall], call: ToolCall | None = None) -> Iterator[Event]:
        yield from self._close()
        self._open = kind
        yield Opened(self._choice, self._count, call if call is not None else Text("") if kind is Text else Reasoning(""))

    def _close(self, *, last: bool = False) -> Iterator[Event]:
        if self._open is not None:
            if self._arguments is not None:
                yield Delta(self._choice, self._count, self._arguments.end())
            citations = self._sources.of("".join(self._said), last=last) if self._open is Text else ()
            yield Closed(self._choice, self._count, self._seal, citations)
            self._open, self._seal, self._arguments = None, None, None
            self._said.clear()
            self._size = 0
            self._count += 1
        if self._after is not None:
            seal, self._after = self._after, None
            yield from self._sealed(seal)

    def _id(self, told: str | None) -> str:
        """Often there is none: then the same for the same place in the same answer, and another in any other."""
        id = told
        if not id or id in self._taken:
            id = "call_" + hashlib.sha256(f"{self._of} {self._choice} {self._count} {told or ''}".encode()).hexdigest()[:24]
        self._taken.add(id)
        return id


def _read(raw: Raw) -> tuple[Raw, Part]:
    """The part, and as it was written, but for halves of surrogate pairs, which are said as what cannot be read."""
    try:
        return raw, _part.decode(raw)
    except UNREADABLE:
        raw = Raw(mended(bytes(raw)))
    try:
        return raw, _part.decode(raw)
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer holds a part that is none of Gemini's: {fault}.") from None


def _arguments(raw: Raw) -> str:
    """An object, as it was written."""
    return "{}" if raw == NULL else bytes(raw).decode()


def _entries(told: Told) -> tuple[Raw, ...]:
    """As OpenAI says it, whose clients want all of its fields. Of tokens Gemini tells no bytes."""
    tops = [each.candidates or [] for each in told.topCandidates or ()]
    entries: list[Raw] = []
    for at, chosen in enumerate(told.chosenCandidates or ()):
        others = tops[at] if at < len(tops) else []
        entry = {
            **_entry(chosen.token, chosen.logProbability),
            "top_logprobs": [_entry(each.token, each.logProbability) for each in others],
        }
        entries.append(Raw(msgspec.json.encode(entry)))
    return tuple(entries)


def _entry(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logprob": logprob, "bytes": None}
