"""groundingMetadata and citationMetadata as citations. Gemini's offsets count bytes of UTF-8, the canonical ones characters.

Source: https://ai.google.dev/api/generate-content#GroundingMetadata, #Segment, #CitationSource, read 2026-11; recording
google_ai_studio/18, whose segments name no part although the first part is not text: a segment is located by its own text.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.gemini.opaque_parts import NAME


class Segment(Struct):
    startIndex: int = 0
    endIndex: int | None = None
    text: str | None = None


class Support(Struct):
    segment: Segment | None = None
    groundingChunkIndices: list[int] | None = None


class Page(Struct):
    """A web page, a place on a map, or a piece of a file."""

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


class RecitedSource(Struct):
    startIndex: int = 0
    endIndex: int | None = None
    uri: str | None = None
    title: str | None = None


class Citations(Struct):
    """AI Studio sends `citationSources`, Vertex `citations`."""

    citationSources: list[Raw] | None = None
    citations: list[Raw] | None = None


_grounding_decoder = msgspec.json.Decoder(Grounding)
_citations_decoder = msgspec.json.Decoder(Citations)
_chunk_decoder = msgspec.json.Decoder(Chunk)
_recited_decoder = msgspec.json.Decoder(RecitedSource)


class CitationCollector:
    """The citations of one candidate. Metadata of a frame replaces that of earlier frames; each citation is placed once."""

    def __init__(self) -> None:
        self._pending: list[tuple[Segment, Citation]] = []
        self._placed: set[bytes] = set()

    def update(self, grounding: Raw, citations: Raw) -> None:
        """Ignores metadata of an undocumented shape: it must not cost a good response."""
        try:
            located = [*_grounded_citations(grounding), *_recited_citations(citations)]
        except DECODE_ERRORS:
            return
        if located:
            self._pending = [each for each in located if _citation_key(each) not in self._placed]

    def citations_for(self, text: str, *, last: bool) -> tuple[Citation, ...]:
        """The citations of this text. If it is the `last`, no other text follows, so it takes those that could not be located too."""
        if not self._pending:
            return ()
        raw = text.encode()
        placed: list[Citation] = []
        unplaced: list[tuple[Segment, Citation]] = []
        for segment, citation in self._pending:
            span = _locate(segment, text, raw)
            if span is None and not last:
                unplaced.append((segment, citation))
                continue
            self._placed.add(_citation_key((segment, citation)))
            start, end = span or (None, None)
            placed.append(msgspec.structs.replace(citation, start=start, end=end))
        self._pending = unplaced
        return tuple(placed)


def _grounded_citations(raw: Raw) -> Iterator[tuple[Segment, Citation]]:
    if raw == NULL:
        return
    grounding = _grounding_decoder.decode(raw)
    chunks = grounding.groundingChunks or []
    for support in grounding.groundingSupports or ():
        segment = support.segment or Segment()
        for index in support.groundingChunkIndices or ():
            if 0 <= index < len(chunks):
                chunk = _chunk_decoder.decode(chunks[index])
                page = chunk.web or chunk.retrievedContext or chunk.maps or Page()
                native: dict[str, Any] = {"type": "groundingSupport", "segment": segment, "groundingChunk": chunks[index]}
                yield segment, Citation(NAME, Raw(msgspec.json.encode(native)), page.uri, page.title, page.text)


def _recited_citations(raw: Raw) -> Iterator[tuple[Segment, Citation]]:
    if raw == NULL:
        return
    metadata = _citations_decoder.decode(raw)
    for each in metadata.citationSources or metadata.citations or ():
        cited = _recited_decoder.decode(each)
        native = {"type": "citationSource", **msgspec.json.decode(each, type=dict[str, Raw])}
        yield Segment(cited.startIndex, cited.endIndex), Citation(NAME, Raw(msgspec.json.encode(native)), cited.uri, cited.title)


def _citation_key(located: tuple[Segment, Citation]) -> bytes:
    return bytes(located[1].raw)


def _locate(segment: Segment, text: str, raw: bytes) -> tuple[int, int] | None:
    start, end = segment.startIndex, segment.endIndex
    segment_text = segment.text
    if end is not None and 0 <= start < end <= len(raw):
        segment_bytes = raw[start:end]
        if segment_text is None or segment_bytes == segment_text.encode("utf-8", "replace"):
            character_start = len(raw[:start].decode("utf-8", "ignore"))
            return character_start, character_start + len(segment_bytes.decode("utf-8", "ignore"))
    if not segment_text:
        return None
    index = text.find(segment_text)
    return None if index < 0 else (index, index + len(segment_text))
