"""One candidate of a response as events, for complete responses and streams alike."""

import hashlib
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque, OpaqueState, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted
from providers.canonical.raw_json import DECODE_ERRORS, NULL, repair_unicode
from providers.dialects.gemini.finish_reasons import read_finish_reason
from providers.dialects.gemini.grounding import CitationCollector
from providers.dialects.gemini.opaque_parts import read_opaque_part
from providers.dialects.gemini.opaque_states import read_call_signature, read_signature, read_thought
from providers.dialects.gemini.partial_arguments import ArgumentsBuilder
from providers.dialects.gemini.response_schema import Call, Candidate, LogprobsResult, Part

_part_decoder = msgspec.json.Decoder(Part)
_object = msgspec.json.Decoder(dict[str, Raw])

# Text is kept until its citations are known, up to this many characters.
_MAX_CITED_CHARACTERS = 4_000_000


class CandidateParser:
    """Parses one candidate. At most one text, reasoning or call is open at a time.

    New ids of calls are derived from `response_id`. `used_call_ids` are those of all candidates.
    """

    def __init__(self, choice: int, response_id: str, used_call_ids: set[str]) -> None:
        self.finished: ChoiceFinished | None = None
        self._choice = choice
        self._response_id = response_id
        self._used_call_ids = used_call_ids
        self._part_index = 0
        self._has_parts = False
        self._open_kind: type[Text | Reasoning | ToolCall] | None = None
        self._text_pieces: list[str] = []
        self._text_size = 0
        self._opaque_state: OpaqueState | None = None
        # A signature that arrived alone after a text. It waits for the text's end, so that citations can still follow.
        self._pending_state: OpaqueState | None = None
        self._arguments: ArgumentsBuilder | None = None
        self._has_tool_calls = False
        self._text_is_signed = False
        self._sources = CitationCollector()

    def read(self, candidate: Candidate) -> Iterator[Event]:
        """Raises UnparsableModelOutput, after all earlier events. Anything after the finish reason is ignored."""
        if self.finished is not None:
            return
        self._sources.update(candidate.groundingMetadata, candidate.citationMetadata)
        self._has_parts = self._has_parts or bool(candidate.content is not None and candidate.content.parts)
        for raw in (candidate.content.parts or ()) if candidate.content is not None else ():
            yield from self._read_part(raw)
        if candidate.logprobsResult is not None:
            entries = _logprob_entries(candidate.logprobsResult)
            if entries:
                yield Logprobs(self._choice, entries)
        if candidate.finishReason is not None and candidate.finishReason != "FINISH_REASON_UNSPECIFIED":
            yield from self._close_part(last=True)
            self.finished = read_finish_reason(
                self._choice,
                candidate.finishReason,
                candidate.finishMessage,
                has_content=self._part_index > 0 or (candidate.finishReason == "STOP" and self._has_parts),
                has_tool_calls=self._has_tool_calls,
            )
            yield self.finished

    def _read_part(self, raw: Raw) -> Iterator[Event]:
        raw, part = _decode_part(raw)
        if part.functionCall is not None:
            if part.text:
                yield from self._read_thought(part.text, None) if part.thought else self._read_text(part.text, None)
            yield from self._read_call(part.functionCall, read_call_signature(part.thoughtSignature).state)
            return
        opaque_state = None if not part.thoughtSignature else read_signature(part.thoughtSignature)
        if (
            part.thought
            and not part.text
            and part.thoughtSignature
            and isinstance(carried := read_thought("", part.thoughtSignature), Opaque)
        ):
            yield from self._emit_opaque(carried)
        elif part.thought and (part.text is not None or opaque_state is not None):
            yield from self._read_thought(part.text or "", opaque_state)
        elif part.text is not None or (opaque_state is not None and set(_object.decode(raw)) == {"thoughtSignature"}):
            yield from self._read_text(part.text or "", opaque_state)
        else:
            yield from self._emit_opaque(read_opaque_part(_object.decode(raw)))

    def _read_thought(self, text: str, opaque_state: OpaqueState | None) -> Iterator[Event]:
        if self._open_kind is not Reasoning or self._opaque_state is not None:
            yield from self._open_part(Reasoning)
        if text:
            yield PartDelta(self._choice, self._part_index, text)
        self._opaque_state = opaque_state

    def _read_text(self, text: str, opaque_state: OpaqueState | None) -> Iterator[Event]:
        """A signature becomes reasoning without text, before the text that it came with."""
        if opaque_state is not None and not text and self._open_kind is Text and self._pending_state is None:
            self._pending_state = opaque_state
            return
        if opaque_state is not None:
            yield from self._emit_opaque_state(opaque_state)
        if not text:
            return
        # A text without a signature is not part of the signed one before it.
        if self._open_kind is not Text or self._pending_state is not None or self._text_is_signed:
            yield from self._open_part(Text)
        if self._text_size < _MAX_CITED_CHARACTERS:
            self._text_pieces.append(text)
            self._text_size += len(text)
        yield PartDelta(self._choice, self._part_index, text)
        self._text_is_signed = opaque_state is not None

    def _emit_opaque_state(self, opaque_state: OpaqueState) -> Iterator[Event]:
        yield from self._close_part()
        yield PartStarted(self._choice, self._part_index, Reasoning(""))
        yield PartFinished(self._choice, self._part_index, opaque_state)
        self._part_index += 1

    def _read_call(self, call: Call, opaque_state: OpaqueState | None) -> Iterator[Event]:
        """The arguments of a call in pieces are emitted when it is complete: the pieces are JSON values, not pieces of its text."""
        if call.name:
            yield from self._open_part(ToolCall, ToolCall(self._call_id(call.id), call.name, ""))
            self._has_tool_calls = True
            self._opaque_state = opaque_state
            if not call.willContinue and call.partialArgs is None:
                yield PartDelta(self._choice, self._part_index, _arguments(call.args))
                yield from self._close_part()
                return
            self._arguments = ArgumentsBuilder()
        elif self._arguments is None:
            raise InvalidUpstreamResponse("The engine sent a piece of a call that has not begun.")
        self._opaque_state = self._opaque_state or opaque_state
        assert self._arguments is not None
        for piece in call.partialArgs or ():
            self._arguments.add(piece)
        if not call.willContinue:
            yield from self._close_part()

    def _emit_opaque(self, part: Opaque) -> Iterator[Event]:
        yield from self._close_part()
        yield PartStarted(self._choice, self._part_index, part)
        yield PartFinished(self._choice, self._part_index)
        self._part_index += 1

    def _open_part(self, kind: type[Text | Reasoning | ToolCall], call: ToolCall | None = None) -> Iterator[Event]:
        yield from self._close_part()
        self._open_kind = kind
        yield PartStarted(self._choice, self._part_index, call if call is not None else Text("") if kind is Text else Reasoning(""))

    def _close_part(self, *, last: bool = False) -> Iterator[Event]:
        if self._open_kind is not None:
            if self._arguments is not None:
                yield PartDelta(self._choice, self._part_index, self._arguments.to_json())
            citations = self._sources.citations_for("".join(self._text_pieces), last=last) if self._open_kind is Text else ()
            yield PartFinished(self._choice, self._part_index, self._opaque_state, citations)
            self._open_kind, self._opaque_state, self._arguments = None, None, None
            self._text_pieces.clear()
            self._text_size = 0
            self._part_index += 1
        if self._pending_state is not None:
            opaque_state, self._pending_state = self._pending_state, None
            yield from self._emit_opaque_state(opaque_state)

    def _call_id(self, given_id: str | None) -> str:
        """Gemini often gives no id. A derived one is stable for this place in this response, and unique elsewhere."""
        call_id = given_id
        if not call_id or call_id in self._used_call_ids:
            place = f"{self._response_id} {self._choice} {self._part_index} {given_id or ''}"
            call_id = "call_" + hashlib.sha256(place.encode()).hexdigest()[:24]
        self._used_call_ids.add(call_id)
        return call_id


def _decode_part(raw: Raw) -> tuple[Raw, Part]:
    """The part, and its bytes with broken Unicode repaired."""
    try:
        return raw, _part_decoder.decode(raw)
    except DECODE_ERRORS:
        raw = Raw(repair_unicode(bytes(raw)))
    try:
        return raw, _part_decoder.decode(raw)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's answer holds an invalid part: {decode_error}.") from None


def _arguments(raw: Raw) -> str:
    return "{}" if raw == NULL else bytes(raw).decode()


def _logprob_entries(logprobs: LogprobsResult) -> tuple[Raw, ...]:
    """Returns the entries as OpenAI writes them, with all fields, which its clients need. Gemini reports no bytes."""
    tops = [each.candidates or [] for each in logprobs.topCandidates or ()]
    entries: list[Raw] = []
    for index, chosen in enumerate(logprobs.chosenCandidates or ()):
        others = tops[index] if index < len(tops) else []
        entry = {
            **_logprob_entry(chosen.token, chosen.logProbability),
            "top_logprobs": [_logprob_entry(each.token, each.logProbability) for each in others],
        }
        entries.append(Raw(msgspec.json.encode(entry)))
    return tuple(entries)


def _logprob_entry(token: str, logprob: float) -> dict[str, object]:
    return {"token": token, "logprob": logprob, "bytes": None}
