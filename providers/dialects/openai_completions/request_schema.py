"""Opening a request to /v1/completions: every documented field is checked, unknown ones pass.

Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest

Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
RawObject = dict[str, Raw]


class StreamOptions(Struct):
    include_usage: bool | None = None


class ResponseFormat(Struct):
    type: str


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes. `prompt`: texts, or the ids of tokens."""

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


_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises Malformed: what was wrong, where, and what was expected."""
    request, body = parse_body(raw, _decoder)
    prompts, token_id_count = _count_prompts(request)
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("`stream_options` may be set only with `stream: true`.", param="stream_options")
    choices_per_prompt = request.n or 1
    if request.best_of is not None and request.best_of < choices_per_prompt:
        raise InvalidRequest("`best_of` must be at least `n`.", param="best_of")
    if request.best_of is not None and request.best_of > 1 and request.stream:
        raise InvalidRequest("`best_of` cannot be streamed: which answer is best is known at the end.", param="best_of")
    generated_choices = prompts * max(choices_per_prompt, request.best_of or 1)
    return InboundRequest(
        dialect="openai_completions",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user,
        input_tokens=_input_tokens(body, raw, token_id_count),
        output_tokens=None if request.max_tokens is None else request.max_tokens * generated_choices,
        choices=prompts * choices_per_prompt,
    )


def _count_prompts(request: Request) -> tuple[int, int | None]:
    """How many prompts there are, and how many token ids in all; None for texts."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return 1, None
    if not prompt:
        raise InvalidRequest("`prompt` is empty.", param="prompt")
    kind = type(prompt[0])
    for at, each in enumerate(prompt):
        if type(each) is not kind:
            raise InvalidRequest(
                f"`prompt` must hold texts alone, or token ids alone: `prompt[{at}]` is of another kind.", param=f"prompt[{at}]"
            )
        if each == []:
            raise InvalidRequest(f"`prompt[{at}]` is empty.", param=f"prompt[{at}]")
    if kind is str:
        return len(prompt), None
    if kind is int:
        return 1, len(prompt)
    return len(prompt), sum(len(each) for each in prompt if isinstance(each, list))


def _input_tokens(body: Body, raw: bytes, token_id_count: int | None) -> int:
    """Ids are tokens already; all else counts as text."""
    return text_tokens(len(raw)) if token_id_count is None else token_id_count + text_tokens(max(0, len(raw) - len(bytes(body["prompt"]))))
