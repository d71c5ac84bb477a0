"""Citations of Converse. Their locations are in the sources, not in the text that cites them.

Source: the service model of Bedrock Runtime in botocore 1.44 (Citation, CitationsDelta), read 2026-11; aws_bedrock/11 of the recordings.
"""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation
from providers.dialects.bedrock_converse.opaque_blocks import NAME


class _Text(Struct):
    text: str = ""


class _Web(Struct):
    url: str | None = None


class _Location(Struct):
    web: _Web | None = None


class _Citation(Struct):
    title: str | None = None
    source: str | None = None
    sourceContent: list[_Text] | None = None
    location: _Location | None = None


_citation_decoder = msgspec.json.Decoder(_Citation)


def read_citation(raw: Raw) -> Citation:
    """Raises one of DECODE_ERRORS. The source of a search result counts as a URL if it looks like one."""
    citation = _citation_decoder.decode(raw)
    url = citation.location.web.url if citation.location is not None and citation.location.web is not None else None
    if url is None and citation.source is not None and citation.source.startswith(("https://", "http://")):
        url = citation.source
    quote = "".join(each.text for each in citation.sourceContent or ())
    return Citation(NAME, raw, url or None, citation.title or None, quote or None)
