"""Sources: what a host found on the web and tells beside its choices, as the annotations that OpenAI's clients know.

Perplexity tells them of the whole answer, in each chunk of a stream again; its text refers to them by number, as in [2].
Sources: the recordings perplexity/01 and 02; https://docs.perplexity.ai/api-reference/chat-completions-post, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Citation
from providers.wire import NULL, UNREADABLE

_NAME = "openai_chat"
_WEB = ("https://", "http://")


class _Found(Struct):
    url: str
    title: str | None = None
    snippet: str | None = None


_found = msgspec.json.Decoder(list[_Found]).decode
_addresses = msgspec.json.Decoder(list[str]).decode
_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


def read_sources(search_results: Raw, citations: Raw) -> tuple[Citation, ...]:
    """`citations` has the addresses alone. What is of another shape is passed over: other hosts may mean something else by these names."""
    try:
        found = [] if search_results == NULL else _found(search_results)
        if not found and citations != NULL:
            found = [_Found(url) for url in _addresses(citations)]
    except UNREADABLE:
        return ()
    return tuple(
        Citation(_NAME, Raw(msgspec.json.encode(_annotation(each))), each.url, each.title, each.snippet)
        for each in found
        if each.url.startswith(_WEB)
    )


def _annotation(found: _Found) -> dict[str, Any]:
    """Of no place in the text: none is told."""
    return {"type": "url_citation", "url_citation": {"url": found.url, "title": found.title or "", "start_index": 0, "end_index": 0}}


def has_sources(body: Mapping[str, Any]) -> bool:
    return "search_results" in body or "citations" in body


def with_annotations(body: Mapping[str, Any], inside: str) -> Raw | None:
    """The choices of an answer or a chunk, of which those that finish are annotated; None: there is nothing to annotate, or it is."""
    sources = read_sources(body.get("search_results", NULL), body.get("citations", NULL))
    if not sources:
        return None
    raw = body["choices"]
    told = _choices(raw if isinstance(raw, Raw) else msgspec.json.encode(raw))
    changed = False
    for choice in told:
        said = _object(choice[inside]) if choice.get(inside, NULL) != NULL else {}
        if choice.get("finish_reason", NULL) != NULL and said.get("annotations", NULL) == NULL:
            choice[inside] = Raw(msgspec.json.encode({**said, "annotations": [source.raw for source in sources]}))
            changed = True
    return Raw(msgspec.json.encode(told)) if changed else None
