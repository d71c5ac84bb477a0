"""Parts of a response as Gemini's, with their citations as grounding metadata."""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.tool_calls import write_arguments
from providers.dialects.gemini.opaque_parts import NAME, write_opaque_part
from providers.dialects.gemini.opaque_states import is_carried, write_call_signature, write_opaque, write_signature

WrittenPart = dict[str, Any]


class _NativeSupport(Struct):
    """A citation as the parser of Gemini's responses keeps it."""

    groundingChunk: Raw = NULL


class _Token(Struct):
    token: str = ""
    logprob: float = 0.0
    top_logprobs: "list[_Token]" = []


_native_decoder = msgspec.json.Decoder(_NativeSupport)
_token_decoder = msgspec.json.Decoder(_Token)


class PartsWriter:
    """Writes the complete parts of one choice, in order. A call carries the reasoning of other dialects since the call before it."""

    def __init__(self, *, includes_thoughts: bool) -> None:
        self._includes_thoughts = includes_thoughts
        self._carried: list[Reasoning | Opaque] = []

    def write(self, part: Part) -> list[WrittenPart]:
        if is_carried(part):
            self._carried.append(part)
        match part:
            case Text() | Refusal():
                return [{"text": part.text}] if part.text else []
            case Reasoning():
                return self._write_reasoning(part)
            case ToolCall():
                return [self._write_call(part)]
            case Opaque():
                if part.origin == NAME:
                    return [write_opaque_part(part)]
                return [{"text": "", "thought": True, "thoughtSignature": write_opaque(part)}] if self._includes_thoughts else []
            case _:
                assert_never(part)

    def _write_reasoning(self, part: Reasoning) -> list[WrittenPart]:
        """A thought, if the caller wants thoughts. Gemini's own signature comes in any case, without a text."""
        state = part.opaque_state
        if state is not None and state.origin == NAME and (not part.text or not self._includes_thoughts):
            return [{"text": "", "thoughtSignature": state.data}]
        if not self._includes_thoughts or (state is None and not part.text):
            return []
        thought: WrittenPart = {"text": part.text, "thought": True}
        return [thought if state is None else {**thought, "thoughtSignature": write_signature(state)}]

    def _write_call(self, call: ToolCall) -> WrittenPart:
        arguments = write_arguments(call.arguments, custom=call.custom)
        written: WrittenPart = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
        signature = write_call_signature(call.opaque_state, self._carried)
        self._carried.clear()
        return written if signature is None else {**written, "thoughtSignature": signature}


class Grounding:
    """The grounding metadata of one candidate. `add` takes the citations of a text, and the index of its part."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self._supports: list[dict[str, Any]] = []

    def add(self, text: str, part_index: int, citations: Sequence[Citation]) -> None:
        for citation in citations:
            segment: dict[str, Any] = {}
            if citation.start is not None and citation.end is not None:
                before, cited = text[: citation.start], text[citation.start : citation.end]
                start = len(before.encode())
                segment = {"partIndex": part_index, "startIndex": start, "endIndex": start + len(cited.encode()), "text": cited}
            self._supports.append({"segment": segment, "groundingChunkIndices": [len(self._chunks)]})
            self._chunks.append(_write_chunk(citation))

    def write(self) -> dict[str, Any]:
        """The field of the candidate, or nothing if nothing was cited."""
        if not self._chunks:
            return {}
        return {"groundingMetadata": {"groundingChunks": self._chunks, "groundingSupports": self._supports}}


def _write_chunk(citation: Citation) -> Any:
    if citation.origin == NAME:
        try:
            native = _native_decoder.decode(citation.raw).groundingChunk
        except DECODE_ERRORS:
            native = NULL
        if native != NULL:
            return native
    if citation.url is not None:
        return {"web": {"uri": citation.url, "title": citation.title or ""}}
    return {"retrievedContext": {"title": citation.title or "", "text": citation.quote or ""}}


def write_logprobs(entries: Sequence[Raw]) -> dict[str, Any]:
    """The entries of OpenAI's list as Gemini's result."""
    tokens = [_token_decoder.decode(entry) for entry in entries]
    return {
        "topCandidates": [{"candidates": [_write_token(each) for each in token.top_logprobs]} for token in tokens],
        "chosenCandidates": [_write_token(token) for token in tokens],
    }


def _write_token(token: _Token) -> dict[str, Any]:
    return {"token": token.token, "logProbability": token.logprob}
