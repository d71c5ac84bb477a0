"""Reading a request to /inference/v1/generate: every documented field is checked, unknown ones pass.

Source: vLLM 0.32, vllm/entrypoints/scale_out/token_in_token_out/protocol.py and vllm/sampling_params.py, whose ranges these are. What is
sampled stands in `sampling_params`; at the top level vLLM would not heed it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.token_estimate import IMAGE_TOKENS
from providers.dialect import InboundRequest

PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Object = dict[str, Raw]


class SamplingParams(Struct):
    n: PositiveInt | None = None
    max_tokens: PositiveInt | None = None
    min_tokens: NonNegativeInt | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    ignore_eos: bool | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    structured_outputs: Object | None = None
    extra_args: Object | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes."""

    token_ids: Annotated[list[NonNegativeInt], Meta(min_length=1)]
    sampling_params: SamplingParams
    model: str | None = None
    request_id: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    output_mode: str | None = None
    features: Object | None = None
    content_parts: list[Object] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    priority: int | None = None
    return_token_ids: bool | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: Object | None = None
    kv_transfer_params: Object | None = None
    ec_transfer_params: Object | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


_request_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises Malformed: what was wrong, where, and what was expected."""
    request, body = parse_body(raw, _request_decoder)
    if request.model is None:
        raise InvalidRequest("`model` is missing: vLLM itself does without it, but behind this gateway are many models.", param="model")
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("`stream_options` may be set only with `stream: true`.", param="stream_options")
    max_tokens, choices = request.sampling_params.max_tokens, request.sampling_params.n or 1
    return InboundRequest(
        dialect="vllm_generate",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or {},
        end_user=None,
        # The ids hold a place for each token of media in `features`; what is in `content_parts` is placed among them by the engine.
        input_tokens=len(request.token_ids) + IMAGE_TOKENS * len(request.content_parts or ()),
        output_tokens=None if max_tokens is None else max_tokens * choices,
        choices=choices,
    )
