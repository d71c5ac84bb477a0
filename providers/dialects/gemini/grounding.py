"""Where a text comes from: groundingMetadata and citationMetadata as citations. Their places count bytes of UTF-8, ours characters.

Source: https://ai.google.dev/api/generate-content#GroundingMetadata, #Segment, #CitationSource, read 2026-11; recording
google_ai_studio/18, whose segments name no part although the first is no text: so a segment's place is known by the text it repeats.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Citation
from providers.dialects.gemini.kinds import NAME
from providers.wire import NULL, UNREADABLE


class Segment(Struct):
    startIndex: int = 0
    endIndex: int | None = None
    text: str | None = None


class Support(Struct):
    segment: Segment | None = None
    groundingChunkIndices: list[int] | None = None


class Page(Struct):
    """A page of the web, a place on a map, or a piece of a file."""

    uri: str | None = None
    title: str | None = None
    text: str | None = None


class Chunk(Struct):
    web: Page | None = None
    retrievedContext: Page | None = None
    maps: Page | None = None


class Grounding(Struct):
    groundingChunks: list[Raw] | None = None
    groundingSupports: list[Support] | None = None


class Cited(Struct):
    startIndex: int = 0
    endIndex: int | None = None
    uri: str | None = None
    title: str | None = None


class Citations(Struct):
    """`citationSources` in AI Studio, `citations` in Vertex."""

    citationSources: list[Raw] | None = None
    citations: list[Raw] | None = None


_grounding = msgspec.json.Decoder(Grounding)
_citations = msgspec.json.Decoder(Citations)
_chunk = msgspec.json.Decoder(Chunk)
_cited = msgspec.json.Decoder(Cited)


class Sources:
    """Of one candidate. Each frame's metadata takes the place of the one before; what was placed already is not placed again."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Segment, Citation]] = []
        self._placed: set[bytes] = set()

    def note(self, grounding: Raw, citations: Raw) -> None:
        """What is none of its documented shape is passed over: it is beside the answer."""
        try:
            found = [*_supported(grounding), *_recited(citations)]
        except UNREADABLE:
            return
        if found:
            self._waiting = [each for each in found if _key(each) not in self._placed]

    def of(self, text: str, *, last: bool) -> tuple[Citation, ...]:
        """Those that rest on this text. `last`: no other follows, so that what has no place is told of it all."""
        if not self._waiting:
            return ()
        raw = text.encode()
        told: list[Citation] = []
        rest: list[tuple[Segment, Citation]] = []
        for segment, citation in self._waiting:
            place = _place(segment, text, raw)
            if place is None and not last:
                rest.append((segment, citation))
                continue
            self._placed.add(_key((segment, citation)))
            start, end = place or (None, None)
            told.append(msgspec.structs.replace(citation, start=start, end=end))
        self._waiting = rest
        return tuple(told)


def _supported(raw: Raw) -> Iterator[tuple[Segment, Citation]]:
    if raw == NULL:
        return
    told = _grounding.decode(raw)
    chunks = told.groundingChunks or []
    for support in told.groundingSupports or ():
        segment = support.segment or Segment()
        for index in support.groundingChunkIndices or ():
            if 0 <= index < len(chunks):
                chunk = _chunk.decode(chunks[index])
                page = chunk.web or chunk.retrievedContext or chunk.maps or Page()
                whole: dict[str, Any] = {"type": "groundingSupport", "segment": segment, "groundingChunk": chunks[index]}
                yield segment, Citation(NAME, Raw(msgspec.json.encode(whole)), page.uri, page.title, page.text)


def _recited(raw: Raw) -> Iterator[tuple[Segment, Citation]]:
    if raw == NULL:
        return
    told = _citations.decode(raw)
    for each in told.citationSources or told.citations or ():
        cited = _cited.decode(each)
        whole = {"type": "citationSource", **msgspec.json.decode(each, type=dict[str, Raw])}
        yield Segment(cited.startIndex, cited.endIndex), Citation(NAME, Raw(msgspec.json.encode(whole)), cited.uri, cited.title)


def _key(found: tuple[Segment, Citation]) -> bytes:
    return bytes(found[1].raw)


def _place(segment: Segment, text: str, raw: bytes) -> tuple[int, int] | None:
    start, end = segment.startIndex, segment.endIndex
    said = segment.text
    if end is not None and 0 <= start < end <= len(raw):
        piece = raw[start:end]
        if said is None or piece == said.encode("utf-8", "replace"):
            first = len(raw[:start].decode("utf-8", "ignore"))
            return first, first + len(piece.decode("utf-8", "ignore"))
    if not said:
        return None
    at = text.find(said)
    return None if at < 0 else (at, at + len(said))
