"""Documents by how much they answer a query. The common shape is Jina's, which is Cohere's and vLLM's too.

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
from providers.engine_routes.read_response import decode_field, read_list, read_object, reported_input_tokens
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding

Text = Annotated[str, Meta(min_length=1)]


class TextObject(Struct, forbid_unknown_fields=True):
    """A document as Cohere's and Jina's clients may say it, or vLLM's with media; `content` are parts as of a chat."""

    text: Text | None = None
    content: list[Raw] | None = None


class Documents(Struct):
    query: Text | TextObject
    documents: Annotated[list[Text | TextObject], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_documents: bool | None = None


class Texts(Struct):
    """llama.cpp's second one, which is that of Text Embeddings Inference."""

    query: Text
    texts: Annotated[list[Text], Meta(min_length=1)]
    return_text: bool | None = None


_results_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_index_decoder = msgspec.json.Decoder(int)
_score_decoder = msgspec.json.Decoder(float)
_list_decoder = msgspec.json.Decoder(list[Raw])


def check_texts_only(value: Any) -> str | None:
    """Of a text, or a list of them."""
    return None if all(isinstance(each, str) for each in as_list(value)) else "it takes texts there, and no media."


def as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _convert_sglang_list(raw: bytes, request_body: Body) -> bytes:
    """SGLang's bare list of {"score", "document", "index", "meta_info"}."""
    items = read_list(raw)
    results = [{"index": item.get("index"), "relevance_score": item.get("score")} for item in items]
    tokens = reported_input_tokens(items)
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return msgspec.json.encode({"results": results, **usage})


_TEXTS_ONLY = {"query": check_texts_only, "documents": check_texts_only}
# What changes the answer alone is done here, whatever the engine would do about it.
_GATEWAY_FIELDS = frozenset({"top_n", "return_documents"})
_FIELD_NAMES = {"query": "query", "documents": "documents"}
# Cohere's first words, of which vLLM takes any and heeds none.
_IGNORED_FIELDS = frozenset({"rank_fields", "max_chunks_per_doc"})


class Rerank(Route):
    name: ClassVar[str] = "rerank"
    purpose: ClassVar[str] = "reranks documents"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "documents": msgspec.json.Decoder(Documents),
        "texts": msgspec.json.Decoder(Texts),
    }
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": {"documents": RouteBinding(name="/rerank", unsupported_fields=_IGNORED_FIELDS, gateway_fields=_GATEWAY_FIELDS)},
        "sandbox": {
            "documents": RouteBinding(
                name="/rerank", field_names={**_FIELD_NAMES, "sandbox": "sandbox"}, value_checks=_TEXTS_ONLY, gateway_fields=_GATEWAY_FIELDS
            )
        },
        "openai": {"documents": RouteBinding(name="/v1/rerank", gateway_fields=_GATEWAY_FIELDS)},
        "sglang": {
            "documents": RouteBinding(
                name="/v1/rerank",
                field_names={**_FIELD_NAMES, "instruction": "instruct"},
                value_checks=_TEXTS_ONLY,
                gateway_fields=_GATEWAY_FIELDS,
                sends_model=False,
                convert_response=_convert_sglang_list,
            )
        },
        "llamacpp": {
            "documents": RouteBinding(
                name="/v1/rerank", field_names=_FIELD_NAMES, value_checks=_TEXTS_ONLY, gateway_fields=_GATEWAY_FIELDS
            ),
            "texts": RouteBinding(name="/v1/rerank", is_native=True),
        },
        "cohere": {
            "documents": RouteBinding(
                name="/v2/rerank",
                field_names={**_FIELD_NAMES, "max_tokens_per_doc": "max_tokens_per_doc", "priority": "priority"},
                value_checks=_TEXTS_ONLY,
                gateway_fields=_GATEWAY_FIELDS,
            )
        },
    }

    def normalise_request(self, request: Documents | Texts, body: Body) -> None:
        """A text in an object is a text. All scores are asked for: what is best of them is cut out of the answer here."""
        if isinstance(request, Texts):
            return
        for field in ("query", "documents"):
            body[field] = _unwrap_texts(body[field])

    def estimate(self, request: Documents | Texts) -> int:
        """The query is read with each document."""
        texts = request.texts if isinstance(request, Texts) else request.documents
        return len(texts) * _estimate_tokens(request.query) + sum(map(_estimate_tokens, texts))

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """Best first, as many and with their documents as was asked. Raises Garbled if they are not those that were asked about."""
        body, request_body = read_object(raw), Body(meta.request_body)
        documents = decode_field(request_body, "documents", _list_decoder, "documents")
        expected = min(request_body.value("top_n") or len(documents), len(documents))
        results = [_Result(item, len(documents)) for item in decode_field(body, "results", _results_decoder, "results")]
        if len({result.index for result in results}) < max(len(results), expected):
            raise InvalidUpstreamResponse(
                f"The engine gave {len(results)} results where {expected} of {len(documents)} documents were asked for."
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
            raise InvalidUpstreamResponse(f"The engine gave a result for document {self.index} of {document_count}.")

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
    """Texts in place of objects with nothing but a text in them."""
    text = _unwrap_text(raw)
    if text is not None or bytes(raw)[:1] != b"[":
        return text or raw
    return msgspec.Raw(msgspec.json.encode([_unwrap_text(each) or each for each in _list_decoder.decode(raw)]))


def _unwrap_text(raw: Raw) -> Raw | None:
    """The text of an object with nothing else in it."""
    if bytes(raw)[:1] != b"{":
        return None
    fields = Body.read(raw)
    return fields["text"] if list(fields) == ["text"] else None
