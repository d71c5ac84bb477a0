"""vLLM's /rerank and /score: the similarity of two texts is that of their embeddings, from 0 to 1."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import uuid4

from msgspec import Meta, Struct

from app.sandbox.embeddings import DIMENSIONS, count_inputs, embed_item
from app.sandbox.protocol.errors import InvalidRequest
from app.sandbox.protocol.request_schema import Control

NonEmptyTexts = Annotated[list[str], Meta(min_length=1, max_length=2048)]


class RerankBody(Struct, frozen=True, kw_only=True):
    model: str
    query: str
    documents: NonEmptyTexts
    top_n: Annotated[int, Meta(ge=0)] = 0
    sandbox: Control | None = None


class ScoreBody(Struct, frozen=True, kw_only=True):
    model: str
    text_1: str | NonEmptyTexts
    text_2: str | NonEmptyTexts
    sandbox: Control | None = None


def rerank(body: RerankBody) -> dict[str, Any]:
    scores, usage = score_pairs([body.query], body.documents)
    order = sorted(range(len(scores)), key=lambda index: -scores[index])[: body.top_n or None]
    results = [{"index": index, "document": {"text": body.documents[index]}, "relevance_score": scores[index]} for index in order]
    return {"id": f"rerank-{uuid4().hex}", "model": body.model, "results": results, "usage": usage}


def score(body: ScoreBody) -> dict[str, Any]:
    left_texts = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    right_texts = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if len(left_texts) != 1 and len(left_texts) != len(right_texts):
        raise InvalidRequest(f"text_2: has {len(right_texts)} texts, where text_1 has {len(left_texts)}", "text_2")
    scores, usage = score_pairs(left_texts, right_texts)
    data = [{"index": index, "object": "score", "score": each} for index, each in enumerate(scores)]
    return {"id": f"score-{uuid4().hex}", "object": "list", "model": body.model, "data": data, "usage": usage}


def score_pairs(left_texts: Sequence[str], right_texts: Sequence[str]) -> tuple[list[float], dict[str, int]]:
    """The score of each pair, and the usage; texts in several pairs are counted in each, as by a cross-encoder."""
    left_tokens, right_tokens = count_inputs(left_texts), count_inputs(right_texts)
    tokens = left_tokens * (len(right_texts) if len(left_texts) == 1 else 1) + right_tokens
    lefts = [embed_item(text, DIMENSIONS) for text in left_texts]
    similarities = [
        sum(a * b for a, b in zip(lefts[0] if len(lefts) == 1 else lefts[index], embed_item(text, DIMENSIONS), strict=True))
        for index, text in enumerate(right_texts)
    ]
    return [round((1 + each) / 2, 6) for each in similarities], {"prompt_tokens": tokens, "total_tokens": tokens}
