"""How well texts go together, pair by pair. The common shape is vLLM's, with any of its names for the two sides.

SGLang's /v1/score is another thing, the probabilities of given tokens after a text: it is asked in its own shape alone.
Sources: vLLM 0.33 entrypoints/pooling/scoring/protocol.py; SGLang's openai/protocol.py (ScoringRequest); both read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from providers.dialect import Edited, Stamp
from providers.errors import Garbled, Malformed
from providers.estimate import text_tokens
from providers.routes.replies import decoded, read_object
from providers.routes.rerank import TextObject, only_texts, several
from providers.routes.route import Route, Shape
from providers.routes.way import Way
from providers.wire import Body

Text = Annotated[str, Meta(min_length=1)]
Side = Text | TextObject | Annotated[list[Text | TextObject], Meta(min_length=1)]


class TextPair(Struct):
    text_1: Side
    text_2: Side


class DataPair(Struct):
    data_1: Side
    data_2: Side


class Queries(Struct):
    """With one of the two."""

    queries: Side
    documents: Side | None = None
    items: Side | None = None


class LabelTokens(Struct):
    """SGLang's."""

    label_token_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]
    query: str | list[int]
    items: str | list[str | list[int]]
    apply_softmax: bool | None = None
    item_first: bool | None = None


_scores = msgspec.json.Decoder(list[dict[str, Raw]])
_number = msgspec.json.Decoder(float)

_PAIRS = {"text_1": "text_2", "data_1": "data_2"}
_MARKS = (*_PAIRS, "queries")
_TEXTS_ONLY = {field: only_texts for pair in _PAIRS.items() for field in pair} | {"queries": only_texts, "documents": only_texts}
_NATIVE = {mark: Way(name="/score") for mark in _MARKS}


class Score(Route):
    name: ClassVar[str] = "score"
    does: ClassVar[str] = "scores pairs of texts"
    shapes: ClassVar[Mapping[str, Shape]] = {
        "text_1": msgspec.json.Decoder(TextPair),
        "data_1": msgspec.json.Decoder(DataPair),
        "queries": msgspec.json.Decoder(Queries),
        "label_token_ids": msgspec.json.Decoder(LabelTokens),
    }
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": _NATIVE,
        "openai": {mark: Way(name="/v1/score") for mark in _MARKS},
        "sandbox": {
            "text_1": Way(name="/score", words={"text_1": "text_1", "text_2": "text_2", "sandbox": "sandbox"}, misfits=_TEXTS_ONLY),
            "data_1": Way(name="/score", words={"data_1": "text_1", "data_2": "text_2", "sandbox": "sandbox"}, misfits=_TEXTS_ONLY),
            "queries": Way(name="/score", words={"queries": "text_1", "documents": "text_2", "sandbox": "sandbox"}, misfits=_TEXTS_ONLY),
        },
        "sglang": {"label_token_ids": Way(name="/v1/score", own=True)},
    }

    def settle(self, request: Any, body: Body) -> None:
        if isinstance(request, Queries) and request.items is not None:
            if request.documents is not None:
                raise Malformed("Send one of `documents`, `items`, and not more.", param="items")
            body["documents"] = body.pop("items")
        if isinstance(request, LabelTokens):
            return
        one, other = sides(body)
        if one not in (1, other):
            raise Malformed(
                f"{one} texts cannot be paired with {other}: send one, or as many as there are of the others.", param=said(body)
            )

    def estimate(self, request: Any) -> int:
        return sum(text_tokens(len(msgspec.json.encode(side))) for side in msgspec.structs.astuple(request))

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """A score for each pair, in their order. Raises Garbled for others."""
        body = read_object(raw)
        scores = decoded(body, "data", _scores, "scores")
        _, wanted = sides(Body(stamp.asked))
        if len(scores) != wanted:
            raise Garbled(f"The engine gave {len(scores)} scores for {wanted} pairs.")
        for index, score in enumerate(scores):
            decoded(score, "score", _number, "score of a pair")
            if score.get("index", Raw(b"%d" % index)) != Raw(b"%d" % index):
                raise Garbled("The engine's scores are not in the order of the pairs.")
        body["id"], body["object"], body["model"] = f"score-{stamp.id}", "list", stamp.model
        return self.edited(body)


def said(body: Body) -> str:
    """What the first side is called."""
    return next(mark for mark in _MARKS if body.said(mark))


def sides(body: Body) -> tuple[int, int]:
    """How many texts each side has."""
    one = said(body)
    other = _PAIRS.get(one, "documents")
    if not body.said(other):
        raise Malformed(f"Object missing required field `{other}`.", param=other)
    return len(several(body.value(one))), len(several(body.value(other)))
