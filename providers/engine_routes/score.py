"""Scores of how well texts go together, pair by pair. The common shape is vLLM's, with any of its names for the two sides.

SGLang's /v1/score is something else, the probabilities of given tokens after a text: it has only its own shape.
Sources: vLLM 0.33 entrypoints/pooling/scoring/protocol.py; SGLang's openai/protocol.py (ScoringRequest); both read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import decode_field, read_object
from providers.engine_routes.rerank import TextObject, as_list
from providers.engine_routes.route import RequestDecoder, Route

Text = Annotated[str, Meta(min_length=1)]
Side = Text | TextObject | Annotated[list[Text | TextObject], Meta(min_length=1)]


class TextPair(Struct):
    """The common request."""

    text_1: Side
    text_2: Side


class DataPair(Struct):
    """The common request, with vLLM's other names."""

    data_1: Side
    data_2: Side


class Queries(Struct):
    """The request with `queries`, and with one of `documents` and `items`."""

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


_scores_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_number_decoder = msgspec.json.Decoder(float)

_PAIRS = {"text_1": "text_2", "data_1": "data_2"}
# The fields of the first side.
PAIR_FIELDS = (*_PAIRS, "queries")


class Score(Route):
    """/score and /v1/score."""

    name: ClassVar[str] = "score"
    purpose: ClassVar[str] = "scores pairs of texts"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "text_1": msgspec.json.Decoder(TextPair),
        "data_1": msgspec.json.Decoder(DataPair),
        "queries": msgspec.json.Decoder(Queries),
        "label_token_ids": msgspec.json.Decoder(LabelTokens),
    }

    def normalise_request(self, request: Any, body: Body) -> None:
        if isinstance(request, Queries) and request.items is not None:
            if request.documents is not None:
                raise InvalidRequest("Send only one of `documents`, `items`.", param="items")
            body["documents"] = body.pop("items")
        if isinstance(request, LabelTokens):
            return
        first_count, second_count = count_sides(body)
        if first_count not in (1, second_count):
            raise InvalidRequest(
                f"{first_count} texts cannot be paired with {second_count}: send one, or the same number.",
                param=first_side_field(body),
            )

    def estimate(self, request: Any) -> int:
        return sum(text_tokens(len(msgspec.json.encode(side))) for side in msgspec.structs.astuple(request))

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """One score for each pair, in order. Raises InvalidUpstreamResponse for anything else."""
        body = read_object(raw)
        scores = decode_field(body, "data", _scores_decoder, "scores")
        _, expected = count_sides(Body(meta.request_body))
        if len(scores) != expected:
            raise InvalidUpstreamResponse(f"The engine returned {len(scores)} scores for {expected} pairs.")
        for index, score in enumerate(scores):
            decode_field(score, "score", _number_decoder, "score of a pair")
            if score.get("index", Raw(b"%d" % index)) != Raw(b"%d" % index):
                raise InvalidUpstreamResponse("The engine's scores are not in the order of the pairs.")
        body["id"], body["object"], body["model"] = f"score-{meta.id}", "list", meta.model
        return self.outbound_response(body)


def first_side_field(body: Body) -> str:
    """The field of the first side."""
    return next(discriminator for discriminator in PAIR_FIELDS if body.has_value(discriminator))


def count_sides(body: Body) -> tuple[int, int]:
    """How many texts each side has."""
    first_field = first_side_field(body)
    second_field = _PAIRS.get(first_field, "documents")
    if not body.has_value(second_field):
        raise InvalidRequest(f"Object missing required field `{second_field}`.", param=second_field)
    return len(as_list(body.value(first_field))), len(as_list(body.value(second_field)))
