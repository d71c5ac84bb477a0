"""Documents ranked by how well they answer a query. The common shape is Jina's, which Cohere and vLLM have too.

Sources: vLLM 0.33 entrypoints/pooling/scoring/protocol.py and serving.py; SGLang's openai/serving_rerank.py; llama.cpp's tools/server;
https://jina.ai/reranker; https://docs.cohere.com/reference/rerank; all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import ValueCheck

Text = Annotated[str, Meta(min_length=1)]


class TextObject(Struct, forbid_unknown_fields=True):
    """A document as an object: of Cohere's and Jina's clients, or vLLM's with media. `content`: parts as in a chat."""

    text: Text | None = None
    content: list[Raw] | None = None


class Documents(Struct):
    """The common request."""

    query: Text | TextObject
    documents: Annotated[list[Text | TextObject], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_documents: bool | None = None


class Texts(Struct):
    """llama.cpp's second shape, which is that of Text Embeddings Inference."""

    query: Text
    texts: Annotated[list[Text], Meta(min_length=1)]
    return_text: bool | None = None


_results_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_index_decoder = msgspec.json.Decoder(int)
_score_decoder = msgspec.json.Decoder(float)
_list_decoder = msgspec.json.Decoder(list[Raw])


def check_texts_only(value: Any) -> str | None:
    """Returns why engines that take only texts refuse `value`, a text or a list; None if it holds only texts."""
    return None if all(isinstance(each, str) for each in as_list(value)) else "it takes texts there, not media."


def as_list(value: Any) -> list[Any]:
    """A list as it is, and anything else as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


# Implemented by the gateway, for they change only the response.
GATEWAY_FIELDS = frozenset({"top_n", "return_documents"})
TEXTS_ONLY: Mapping[str, ValueCheck] = {"query": check_texts_only, "documents": check_texts_only}


class Rerank(Route):
    """/rerank, /v1/rerank and /v2/rerank."""

    name: ClassVar[str] = "rerank"
    purpose: ClassVar[str] = "reranks documents"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "documents": msgspec.json.Decoder(Documents),
        "texts": msgspec.json.Decoder(Texts),
    }

    def normalise_request(self, request: Documents | Texts, body: Body) -> None:
        """Unwraps texts in objects. All scores are requested: edit_response() keeps the best."""
        if isinstance(request, Texts):
            return
        for field in ("query", "documents"):
            body[field] = _unwrap_texts(body[field])

    def estimate(self, request: Documents | Texts) -> int:
        """The model reads the query with each document."""
        texts = request.texts if isinstance(request, Texts) else request.documents
        return len(texts) * _estimate_tokens(request.query) + sum(map(_estimate_tokens, texts))

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """The results, best first, in number and with documents as requested. Raises InvalidUpstreamResponse for other results."""
        body, request_body = read_object(raw), Body(meta.request_body)
        documents = decode_field(request_body, "documents", _list_decoder, "documents")
        expected = min(request_body.value("top_n") or len(documents), len(documents))
        results = [_Result(item, len(documents)) for item in decode_field(body, "results", _results_decoder, "results")]
        if len({result.index for result in results}) < max(len(results), expected):
            raise InvalidUpstreamResponse(
                f"The engine returned {len(results)} results, but {expected} of {len(documents)} documents were requested."
            )
        results.sort(key=lambda result: -result.score)
        returns_documents = request_body.value("return_documents") is not False
        body["results"] = [result.as_json(documents[result.index] if returns_documents else None) for result in results[:expected]]
        body["id"], body["model"] = f"rerank-{meta.id}", meta.model
        return self.outbound_response(body)


class _Result:
    def __init__(self, fields: dict[str, Raw], document_count: int) -> None:
        self._fields = fields
        self.index: int = decode_field(fields, "index", _index_decoder, "index of a result")
        self.score: float = decode_field(fields, "relevance_score", _score_decoder, "score of a result")
        if not 0 <= self.index < document_count:
            raise InvalidUpstreamResponse(f"The engine returned a result for document {self.index} of {document_count}.")

    def as_json(self, document: Raw | None) -> dict[str, Any]:
        result: dict[str, Any] = {"index": self._fields["index"], "relevance_score": self._fields["relevance_score"]}
        if document is not None:
            text = bytes(document)[:1] == b'"'
            result["document"] = {"text": document} if text else {"multi_modal": Body.read(document).get("content")}
        return result


def _estimate_tokens(text_or_object: str | TextObject) -> int:
    match text_or_object:
        case str(text) | TextObject(text=str(text)):
            return text_tokens(len(text.encode()))
        case _:
            return sum(text_tokens(len(bytes(part))) for part in text_or_object.content or ())


def _unwrap_texts(raw: Raw) -> Raw:
    """A text, or a list, with texts in place of objects that hold nothing but a text."""
    text = _unwrap_text(raw)
    if text is not None or bytes(raw)[:1] != b"[":
        return text or raw
    return msgspec.Raw(msgspec.json.encode([_unwrap_text(each) or each for each in _list_decoder.decode(raw)]))


def _unwrap_text(raw: Raw) -> Raw | None:
    """The text of an object that holds nothing else; None for anything else."""
    if bytes(raw)[:1] != b"{":
        return None
    fields = Body.read(raw)
    return fields["text"] if list(fields) == ["text"] else None
