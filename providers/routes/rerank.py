"""Documents by how much they answer a query. The common shape is Jina's, which is Cohere's and vLLM's too.

Sources: vLLM 0.33 entrypoints/pooling/scoring/protocol.py and serving.py; SGLang's openai/serving_rerank.py; llama.cpp's tools/server;
https://jina.ai/reranker; https://docs.cohere.com/reference/rerank; all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

import msgspec
from msgspec import Meta, Raw, Struct

from providers.dialect import Edited, Stamp
from providers.errors import Garbled
from providers.estimate import text_tokens
from providers.routes.replies import decoded, read_list, read_object, usage_told
from providers.routes.route import Route, Shape
from providers.routes.way import Way
from providers.wire import Body

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


_results = msgspec.json.Decoder(list[dict[str, Raw]])
_index = msgspec.json.Decoder(int)
_score = msgspec.json.Decoder(float)
_texts = msgspec.json.Decoder(list[Raw])


def only_texts(said: Any) -> str | None:
    """Of a text, or a list of them."""
    return None if all(isinstance(each, str) for each in several(said)) else "it takes texts there, and no media."


def several(said: Any) -> list[Any]:
    return cast("list[Any]", said) if isinstance(said, list) else [said]


def _read_list(raw: bytes, asked: Body) -> bytes:
    """SGLang's bare list of {"score", "document", "index", "meta_info"}."""
    items = read_list(raw)
    results = [{"index": item.get("index"), "relevance_score": item.get("score")} for item in items]
    tokens = usage_told(items)
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return msgspec.json.encode({"results": results, **usage})


_TEXTS_ONLY = {"query": only_texts, "documents": only_texts}
# What changes the answer alone is done here, whatever the engine would do about it.
_HERE = frozenset({"top_n", "return_documents"})
_WORDS = {"query": "query", "documents": "documents"}
# Cohere's first words, of which vLLM takes any and heeds none.
_UNHEEDED = frozenset({"rank_fields", "max_chunks_per_doc"})


class Rerank(Route):
    name: ClassVar[str] = "rerank"
    does: ClassVar[str] = "reranks documents"
    shapes: ClassVar[Mapping[str, Shape]] = {"documents": msgspec.json.Decoder(Documents), "texts": msgspec.json.Decoder(Texts)}
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": {"documents": Way(name="/rerank", refuses=_UNHEEDED, here=_HERE)},
        "sandbox": {"documents": Way(name="/rerank", words={**_WORDS, "sandbox": "sandbox"}, misfits=_TEXTS_ONLY, here=_HERE)},
        "openai": {"documents": Way(name="/v1/rerank", here=_HERE)},
        "sglang": {
            "documents": Way(
                name="/v1/rerank",
                words={**_WORDS, "instruction": "instruct"},
                misfits=_TEXTS_ONLY,
                here=_HERE,
                says_model=False,
                read=_read_list,
            )
        },
        "llamacpp": {
            "documents": Way(name="/v1/rerank", words=_WORDS, misfits=_TEXTS_ONLY, here=_HERE),
            "texts": Way(name="/v1/rerank", own=True),
        },
        "cohere": {
            "documents": Way(
                name="/v2/rerank",
                words={**_WORDS, "max_tokens_per_doc": "max_tokens_per_doc", "priority": "priority"},
                misfits=_TEXTS_ONLY,
                here=_HERE,
            )
        },
    }

    def settle(self, request: Documents | Texts, body: Body) -> None:
        """A text in an object is a text. All scores are asked for: what is best of them is cut out of the answer here."""
        if isinstance(request, Texts):
            return
        for field in ("query", "documents"):
            body[field] = _plain(body[field])

    def estimate(self, request: Documents | Texts) -> int:
        """The query is read with each document."""
        texts = request.texts if isinstance(request, Texts) else request.documents
        return len(texts) * _tokens(request.query) + sum(map(_tokens, texts))

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """Best first, as many and with their documents as was asked. Raises Garbled if they are not those that were asked about."""
        body, asked = read_object(raw), Body(stamp.asked)
        documents = decoded(asked, "documents", _texts, "documents")
        wanted = min(asked.value("top_n") or len(documents), len(documents))
        results = [_Result(item, len(documents)) for item in decoded(body, "results", _results, "results")]
        if len({result.index for result in results}) < max(len(results), wanted):
            raise Garbled(f"The engine gave {len(results)} results where {wanted} of {len(documents)} documents were asked for.")
        results.sort(key=lambda result: -result.score)
        shown = asked.value("return_documents") is not False
        body["results"] = [result.written(documents[result.index] if shown else None) for result in results[:wanted]]
        body["id"], body["model"] = f"rerank-{stamp.id}", stamp.model
        return self.edited(body)


class _Result:
    def __init__(self, told: dict[str, Raw], documents: int) -> None:
        self._told = told
        self.index: int = decoded(told, "index", _index, "index of a result")
        self.score: float = decoded(told, "relevance_score", _score, "score of a result")
        if not 0 <= self.index < documents:
            raise Garbled(f"The engine gave a result for document {self.index} of {documents}.")

    def written(self, document: Raw | None) -> dict[str, Any]:
        told: dict[str, Any] = {"index": self._told["index"], "relevance_score": self._told["relevance_score"]}
        if document is not None:
            text = bytes(document)[:1] == b'"'
            told["document"] = {"text": document} if text else {"multi_modal": Body.read(document).get("content")}
        return told


def _tokens(said: str | TextObject) -> int:
    match said:
        case str(text) | TextObject(text=str(text)):
            return text_tokens(len(text.encode()))
        case _:
            return sum(text_tokens(len(bytes(part))) for part in said.content or ())


def _plain(said: Raw) -> Raw:
    """Texts in place of objects with nothing but a text in them."""
    one = _text_object(said)
    if one is not None or bytes(said)[:1] != b"[":
        return one or said
    return msgspec.Raw(msgspec.json.encode([_text_object(each) or each for each in _texts.decode(said)]))


def _text_object(said: Raw) -> Raw | None:
    """The text of an object with nothing else in it."""
    if bytes(said)[:1] != b"{":
        return None
    told = Body.read(said)
    return told["text"] if list(told) == ["text"] else None
