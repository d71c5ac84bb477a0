"""How well texts go together, pair by pair. The common shape is vLLM's, with any of its names for the two sides.

SGLang's /v1/score is another thing, the probabilities of given tokens after a text: it is asked in its own shape alone.
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
from providers.engine_routes.rerank import TextObject, as_list, check_texts_only
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.route_binding import RouteBinding

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


_scores_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_number_decoder = msgspec.json.Decoder(float)

_PAIRS = {"text_1": "text_2", "data_1": "data_2"}
_DISCRIMINATORS = (*_PAIRS, "queries")
_TEXTS_ONLY = {field: check_texts_only for pair in _PAIRS.items() for field in pair} | {
    "queries": check_texts_only,
    "documents": check_texts_only,
}
_VLLM_BINDINGS = {mark: RouteBinding(name="/score") for mark in _DISCRIMINATORS}


class Score(Route):
    name: ClassVar[str] = "score"
    purpose: ClassVar[str] = "scores pairs of texts"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "text_1": msgspec.json.Decoder(TextPair),
        "data_1": msgspec.json.Decoder(DataPair),
        "queries": msgspec.json.Decoder(Queries),
        "label_token_ids": msgspec.json.Decoder(LabelTokens),
    }
    bindings: ClassVar[Mapping[str, Mapping[str, RouteBinding]]] = {
        "vllm": _VLLM_BINDINGS,
        "openai": {mark: RouteBinding(name="/v1/score") for mark in _DISCRIMINATORS},
        "sandbox": {
            "text_1": RouteBinding(
                name="/score", field_names={"text_1": "text_1", "text_2": "text_2", "sandbox": "sandbox"}, value_checks=_TEXTS_ONLY
            ),
            "data_1": RouteBinding(
                name="/score", field_names={"data_1": "text_1", "data_2": "text_2", "sandbox": "sandbox"}, value_checks=_TEXTS_ONLY
            ),
            "queries": RouteBinding(
                name="/score", field_names={"queries": "text_1", "documents": "text_2", "sandbox": "sandbox"}, value_checks=_TEXTS_ONLY
            ),
        },
        "sglang": {"label_token_ids": RouteBinding(name="/v1/score", is_native=True)},
    }

    def normalise_request(self, request: Any, body: Body) -> None:
        if isinstance(request, Queries) and request.items is not None:
            if request.documents is not None:
                raise InvalidRequest("Send one of `documents`, `items`, and not more.", param="items")
            body["documents"] = body.pop("items")
        if isinstance(request, LabelTokens):
            return
        first_count, second_count = count_sides(body)
        if first_count not in (1, second_count):
            raise InvalidRequest(
                f"{first_count} texts cannot be paired with {second_count}: send one, or as many as there are of the others.",
                param=first_side_field(body),
            )

    def estimate(self, request: Any) -> int:
        return sum(text_tokens(len(msgspec.json.encode(side))) for side in msgspec.structs.astuple(request))

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        """A score for each pair, in their order. Raises Garbled for others."""
        body = read_object(raw)
        scores = decode_field(body, "data", _scores_decoder, "scores")
        _, expected = count_sides(Body(meta.request_body))
        if len(scores) != expected:
            raise InvalidUpstreamResponse(f"The engine gave {len(scores)} scores for {expected} pairs.")
        for index, score in enumerate(scores):
            decode_field(score, "score", _number_decoder, "score of a pair")
            if score.get("index", Raw(b"%d" % index)) != Raw(b"%d" % index):
                raise InvalidUpstreamResponse("The engine's scores are not in the order of the pairs.")
        body["id"], body["object"], body["model"] = f"score-{meta.id}", "list", meta.model
        return self.outbound_response(body)


def first_side_field(body: Body) -> str:
    """What the first side is called."""
    return next(discriminator for discriminator in _DISCRIMINATORS if body.has_value(discriminator))


def count_sides(body: Body) -> tuple[int, int]:
    """How many texts each side has."""
    first_field = first_side_field(body)
    second_field = _PAIRS.get(first_field, "documents")
    if not body.has_value(second_field):
        raise InvalidRequest(f"Object missing required field `{second_field}`.", param=second_field)
    return len(as_list(body.value(first_field))), len(as_list(body.value(second_field)))
