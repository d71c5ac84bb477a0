"""Search results of a host, a field beside its choices, as the annotations that OpenAI's clients know.

Perplexity sends them for the complete response, and in a stream again with each chunk. Its text refers to them by number, as in [2].
Sources: the recordings perplexity/01 and 02; https://docs.perplexity.ai/api-reference/chat-completions-post, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_chat.dialect_name import DIALECT

_WEB_SCHEMES = ("https://", "http://")


class _SearchResult(Struct):
    url: str
    title: str | None = None
    snippet: str | None = None


_decode_search_results = msgspec.json.Decoder(list[_SearchResult]).decode
_decode_urls = msgspec.json.Decoder(list[str]).decode
_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def read_sources(search_results: Raw, citations: Raw) -> tuple[Citation, ...]:
    """The results as citations without positions. `citations` holds only URLs and is used if there are no `search_results`.

    Values of another form are ignored: other hosts may use these names for something else.
    """
    try:
        results = [] if search_results == NULL else _decode_search_results(search_results)
        if not results and citations != NULL:
            results = [_SearchResult(url) for url in _decode_urls(citations)]
    except DECODE_ERRORS:
        return ()
    return tuple(
        Citation(DIALECT, Raw(msgspec.json.encode(_annotation(each))), each.url, each.title, each.snippet)
        for each in results
        if each.url.startswith(_WEB_SCHEMES)
    )


def _annotation(result: _SearchResult) -> dict[str, Any]:
    """The annotation. Its indexes are 0, as the host sends no position in the text."""
    return {"type": "url_citation", "url_citation": {"url": result.url, "title": result.title or "", "start_index": 0, "end_index": 0}}


def has_sources(body: Mapping[str, Any]) -> bool:
    return "search_results" in body or "citations" in body


def with_annotations(body: Mapping[str, Any], message_key: str) -> Raw | None:
    """The choices with annotations on those that finish; None if nothing has to change.

    `message_key` is `message` for a complete response, `delta` for a chunk.
    """
    sources = read_sources(body.get("search_results", NULL), body.get("citations", NULL))
    if not sources:
        return None
    raw = body["choices"]
    decoded = _decode_choices(raw if isinstance(raw, Raw) else msgspec.json.encode(raw))
    changed = False
    for choice in decoded:
        message = _decode_object(choice[message_key]) if choice.get(message_key, NULL) != NULL else {}
        if choice.get("finish_reason", NULL) != NULL and message.get("annotations", NULL) == NULL:
            choice[message_key] = Raw(msgspec.json.encode({**message, "annotations": [source.raw for source in sources]}))
            changed = True
    return Raw(msgspec.json.encode(decoded)) if changed else None
