"""The documented fields of a request to /v1/completions, which are checked. Unknown fields pass.

Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from providers.dialects.openai.request_schema import NonNegativeInt, Penalty, PositiveInt, Probability, RawObject, StreamOptions


class ResponseFormat(Struct):
    type: str


class Request(Struct):
    """The documented fields of a request. The body that is sent on stays the caller's bytes. `prompt` holds texts or token ids."""

    model: str
    prompt: str | list[str | int | list[int]]
    best_of: PositiveInt | None = None
    echo: bool | None = None
    suffix: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    top_k: int | None = None
    max_tokens: NonNegativeInt | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    n: PositiveInt | None = None
    stop: str | list[str] | None = None
    logprobs: NonNegativeInt | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    guided_json: RawObject | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Meta(min_length=1)] | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    json_schema: RawObject | str | bool | None = None
    structural_tag: str | RawObject | None = None
    guided_decoding_backend: str | None = None
    guided_whitespace_pattern: str | None = None
    structured_outputs: RawObject | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")
