"""vLLM's /rerank and /score: how near texts are is how near their embeddings are, from 0 to 1."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import uuid4

from msgspec import Meta, Struct

from app.local.sandbox.bodies import Control
from app.local.sandbox.embeddings import DIMENSIONS, check_length, vector
from app.local.sandbox.errors import Malformed

Texts = Annotated[list[str], Meta(min_length=1, max_length=2048)]


class RerankBody(Struct, frozen=True, kw_only=True):
    model: str
    query: str
    documents: Texts
    top_n: Annotated[int, Meta(ge=0)] = 0
    sandbox: Control | None = None


class ScoreBody(Struct, frozen=True, kw_only=True):
    model: str
    text_1: str | Texts
    text_2: str | Texts
    sandbox: Control | None = None


def rerank(body: RerankBody) -> dict[str, Any]:
    scores, usage = scored([body.query], body.documents)
    order = sorted(range(len(scores)), key=lambda at: -scores[at])[: body.top_n or None]
    results = [{"index": at, "document": {"text": body.documents[at]}, "relevance_score": scores[at]} for at in order]
    return {"id": f"rerank-{uuid4().hex}", "model": body.model, "results": results, "usage": usage}


def score(body: ScoreBody) -> dict[str, Any]:
    one = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    other = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if len(one) != 1 and len(one) != len(other):
        raise Malformed(f"text_2: has {len(other)} texts, where text_1 has {len(one)}", "text_2")
    scores, usage = scored(one, other)
    data = [{"index": at, "object": "score", "score": each} for at, each in enumerate(scores)]
    return {"id": f"score-{uuid4().hex}", "object": "list", "model": body.model, "data": data, "usage": usage}


def scored(one: Sequence[str], other: Sequence[str]) -> tuple[list[float], dict[str, int]]:
    """Each pair is read anew, as a model that compares does."""
    pairs = [(one[0] if len(one) == 1 else one[at], text) for at, text in enumerate(other)]
    tokens = sum(check_length(at, left) + check_length(at, right) for at, (left, right) in enumerate(pairs))
    nearness = [sum(a * b for a, b in zip(vector(left, DIMENSIONS), vector(right, DIMENSIONS), strict=True)) for left, right in pairs]
    return [round((1 + each) / 2, 6) for each in nearness], {"prompt_tokens": tokens, "total_tokens": tokens}
