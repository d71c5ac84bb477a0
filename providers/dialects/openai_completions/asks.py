"""Opening a request to /v1/completions: every documented field is checked, unknown ones pass.

Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from providers.dialect import Ask
from providers.errors import Malformed
from providers.estimate import text_tokens
from providers.opening import one_episode, opened
from providers.wire import Body

Unit = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Object = dict[str, Raw]


class StreamOptions(Struct):
    include_usage: bool | None = None


class ResponseFormat(Struct):
    type: str


class Request(Struct):
    """The documented fields of a request; the body that is sent on stays the caller's bytes. `prompt`: texts, or the ids of tokens."""

    model: str
    prompt: str | list[str | int | list[int]]
    best_of: Count | None = None
    echo: bool | None = None
    suffix: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Unit | None = None
    top_k: int | None = None
    max_tokens: Natural | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: int | None = None
    n: Count | None = None
    stop: str | list[str] | None = None
    logprobs: Natural | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    guided_json: Object | str | bool | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Meta(min_length=1)] | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    json_schema: Object | str | bool | None = None
    structural_tag: str | Object | None = None
    guided_decoding_backend: str | None = None
    guided_whitespace_pattern: str | None = None
    structured_outputs: Object | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


_decoder = msgspec.json.Decoder(Request)


def open_ask(raw: bytes) -> Ask:
    """Raises Malformed: what was wrong, where, and what was expected."""
    request, body = opened(raw, _decoder)
    prompts, ids = _prompts(request)
    if request.stream_options is not None and not request.stream:
        raise Malformed("`stream_options` may be set only with `stream: true`.", param="stream_options")
    each = request.n or 1
    if request.best_of is not None and request.best_of < each:
        raise Malformed("`best_of` must be at least `n`.", param="best_of")
    if request.best_of is not None and request.best_of > 1 and request.stream:
        raise Malformed("`best_of` cannot be streamed: which answer is best is known at the end.", param="best_of")
    made = prompts * max(each, request.best_of or 1)
    return Ask(
        dialect="openai_completions",
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=request.stream_options is not None and bool(request.stream_options.include_usage),
        episode_id=one_episode(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.metadata or {},
        end_user=request.user,
        input_tokens=_input_tokens(body, raw, ids),
        output_tokens=None if request.max_tokens is None else request.max_tokens * made,
        choices=prompts * each,
    )


def _prompts(request: Request) -> tuple[int, int | None]:
    """How many prompts there are, and how many token ids in all; None for texts."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return 1, None
    if not prompt:
        raise Malformed("`prompt` is empty.", param="prompt")
    kind = type(prompt[0])
    for at, each in enumerate(prompt):
        if type(each) is not kind:
            raise Malformed(
                f"`prompt` must hold texts alone, or token ids alone: `prompt[{at}]` is of another kind.", param=f"prompt[{at}]"
            )
        if each == []:
            raise Malformed(f"`prompt[{at}]` is empty.", param=f"prompt[{at}]")
    if kind is str:
        return len(prompt), None
    if kind is int:
        return 1, len(prompt)
    return len(prompt), sum(len(each) for each in prompt if isinstance(each, list))


def _input_tokens(body: Body, raw: bytes, ids: int | None) -> int:
    """Ids are tokens already; all else counts as text."""
    return text_tokens(len(raw)) if ids is None else ids + text_tokens(max(0, len(raw) - len(bytes(body["prompt"]))))
