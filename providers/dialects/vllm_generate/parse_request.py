"""Parses a request to /inference/v1/generate."""

import msgspec

from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.token_estimate import IMAGE_TOKENS
from providers.dialect import InboundRequest
from providers.dialects.openai.parse_request import check_stream_options, includes_usage
from providers.dialects.vllm_generate.request_schema import Request

_request_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
    request, body = parse_body(raw, _request_decoder)
    if request.stream_options is not None:
        check_stream_options(request.stream, request.stream_options)
    max_tokens, choices = request.sampling_params.max_tokens, request.sampling_params.n or 1
    return InboundRequest(
        dialect="vllm_generate",
        body=body,
        model=request.model or "",
        stream=bool(request.stream),
        wants_usage=includes_usage(request.stream_options),
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or {},
        end_user=None,
        # The ids include a placeholder for each token of media in `features`; those of `content_parts` are added by the engine.
        input_tokens=len(request.token_ids) + IMAGE_TOKENS * len(request.content_parts or ()),
        output_tokens=None if max_tokens is None else max_tokens * choices,
        choices=choices,
        names_no_model=request.model is None,
    )
