"""How often Google was asked for a response. Its usage does not say; the metadata of grounding does.

Gemini 3 and later are billed by the query, earlier models by the request that was grounded at all: both are counted, and a price has
one of them. Source: https://ai.google.dev/gemini-api/docs/pricing, read 2026-11; recording google_ai_studio/18.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_uses import MAPS_REQUEST, WEB_SEARCH, WEB_SEARCH_REQUEST, count_uses


class _Grounding(Struct):
    webSearchQueries: list[str] | None = None
    imageSearchQueries: list[str] | None = None


_grounding_decoder = msgspec.json.Decoder(_Grounding)


class SearchCounter:
    """observe() takes the grounding metadata of candidates, of which each frame of a stream repeats what came before."""

    def __init__(self) -> None:
        self.tool_uses: Mapping[str, int] | None = None
        self._queries = 0
        self._asked_maps = False

    def observe(self, raw: Raw) -> None:
        try:
            grounding = _grounding_decoder.decode(raw)
        except DECODE_ERRORS:
            return
        queries = [*(grounding.webSearchQueries or ()), *(grounding.imageSearchQueries or ())]
        self._queries = max(self._queries, len([query for query in queries if query]))
        self._asked_maps = self._asked_maps or b'"maps":' in bytes(raw).replace(b" ", b"")
        self.tool_uses = count_uses(
            [(WEB_SEARCH, self._queries), (WEB_SEARCH_REQUEST, int(self._queries > 0)), (MAPS_REQUEST, int(self._asked_maps))]
        )
