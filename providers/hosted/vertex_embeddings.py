"""Embeddings on Vertex: :predict, with instances, for the older models; :embedContent, of one content, for gemini-embedding-2.

Sources: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api and .../rest/v1/projects.locations
.publishers.models/embedContent; /reference/providers.md part 6; shared/exchanges/gcp_vertex_gemini/17; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct, field

from providers.dialect import Stamp
from providers.errors import Garbled, NotOffered
from providers.foreign import Foreign
from providers.hosted.embedding import read_wanted, unsupported, write_vectors
from providers.hosted.vertex_models import EMBEDDINGS, read_model
from providers.wire import Body

# Vertex's own words for what a text is, which callers who know them may send.
_TASK = ("task_type", "title")
_ONE = "it takes one input in a request (gemini-embedding models on Vertex): send one request for each."


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    asked = read_model(model)
    if asked.publisher != "google":
        raise NotOffered(f"Vertex's {model:.100} has no API for embeddings.", param="model")
    wanted = read_wanted(body, f"Vertex's {model}", may_drop, words=_TASK)
    if len(wanted.texts) > 1 and asked.name.startswith("gemini-embedding-"):
        raise unsupported("input", f"Vertex's {model}", _ONE)
    # By default it cuts what is too long without a word.
    return (_content if asked.embeds_content else _instances)(wanted.texts, wanted.words, wanted.dimensions), wanted.dropped


def _instances(texts: list[str], task: Mapping[str, Any], dimensions: int | None) -> Body:
    parameters: dict[str, Any] = {"autoTruncate": False}
    if dimensions is not None:
        parameters["outputDimensionality"] = dimensions
    return Body({"instances": [{"content": text, **task} for text in texts], "parameters": parameters})


def _content(texts: list[str], task: Mapping[str, Any], dimensions: int | None) -> Body:
    body = Body({"content": {"parts": [{"text": texts[0]}]}, "autoTruncate": False})
    for said, key in (("task_type", "taskType"), ("title", "title")):
        if said in task:
            body[key] = task[said]
    if dimensions is not None:
        body["outputDimensionality"] = dimensions
    return body


class _Statistics(Struct):
    token_count: int | None = None
    truncated: bool = False


class _Embedding(Struct):
    values: msgspec.Raw
    statistics: _Statistics = field(default_factory=_Statistics)


class _Prediction(Struct):
    embeddings: _Embedding


class _Counted(Struct):
    promptTokenCount: int | None = None


class _Told(Struct):
    """Either of the two shapes."""

    predictions: list[_Prediction] = []
    embedding: _Embedding | None = None
    truncated: bool = False
    usageMetadata: _Counted | None = None


_told = msgspec.json.Decoder(_Told)


def _read(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    try:
        told = _told.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise Garbled(f"Vertex's answer holds no embeddings: {fault}.") from None
    found = [each.embeddings for each in told.predictions] if told.embedding is None else [told.embedding]
    if told.truncated or any(each.statistics.truncated for each in found):
        raise Garbled("Vertex cut an input short, although it was asked not to.")
    return write_vectors([each.values for each in found], _tokens(told, found), stamp)


def _tokens(told: _Told, found: list[_Embedding]) -> int | None:
    """None unless all are told."""
    if told.usageMetadata is not None and told.usageMetadata.promptTokenCount is not None:
        return told.usageMetadata.promptTokenCount
    counts = [each.statistics.token_count for each in found]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


VERTEX_EMBEDDINGS = Foreign(EMBEDDINGS, _write, _read)
