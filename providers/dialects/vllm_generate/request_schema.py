"""The documented fields of a request to /inference/v1/generate, which are checked. Unknown fields pass.

Source: vLLM 0.32, vllm/entrypoints/scale_out/token_in_token_out/protocol.py and vllm/sampling_params.py, whose ranges these are.
Sampling parameters belong into `sampling_params`: vLLM ignores them at the top level.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from providers.dialects.openai.request_schema import NonNegativeInt, Penalty, PositiveInt, RawObject, StreamOptions


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
    structured_outputs: RawObject | None = None
    extra_args: RawObject | None = None


class GenerateStreamOptions(StreamOptions):
    continuous_usage_stats: bool | None = None


class Request(Struct):
    """The documented fields of a request. The body that is sent on stays the caller's bytes."""

    token_ids: Annotated[list[NonNegativeInt], Meta(min_length=1)]
    sampling_params: SamplingParams
    model: str | None = None
    request_id: str | None = None
    stream: bool | None = None
    stream_options: GenerateStreamOptions | None = None
    output_mode: str | None = None
    features: RawObject | None = None
    content_parts: list[RawObject] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    priority: int | None = None
    return_token_ids: bool | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: RawObject | None = None
    kv_transfer_params: RawObject | None = None
    ec_transfer_params: RawObject | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")
