"""vLLM's generation from token ids to token ids. There is no vocabulary, so a token id is a byte of the text in UTF-8."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.sandbox.choices import Choice
from app.sandbox.protocol.request_schema import CompletionBody, Control, PositiveInt, StreamOptions, StructuredOutputs
from app.sandbox.request import SandboxRequest, read_completion_requests
from app.sandbox.response_head import ResponseHead


class SamplingParams(Struct, frozen=True, kw_only=True):
    max_tokens: PositiveInt | None = None
    min_tokens: Annotated[int, Meta(ge=0)] | None = None
    ignore_eos: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    seed: int | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    structured_outputs: StructuredOutputs | None = None


class GenerateBody(Struct, frozen=True, kw_only=True):
    token_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]
    sampling_params: SamplingParams
    model: str = "sandbox"
    request_id: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    output_mode: Literal["tokens"] | None = None
    sandbox: Control | None = None


@dataclass(frozen=True, slots=True)
class TokenIds:
    """One choice: the ids of each step, and the finish reason."""

    steps: Sequence[list[int]]
    finish_reason: str

    def flat(self) -> list[int]:
        return [id for step in self.steps for id in step]


def read_generate_request(body: GenerateBody) -> SandboxRequest:
    params = body.sampling_params
    prompt_text = bytes(id % 256 for id in body.token_ids).decode("utf-8", "replace")
    completion = CompletionBody(
        model=body.model,
        prompt=prompt_text,
        max_tokens=params.max_tokens,
        min_tokens=params.min_tokens,
        ignore_eos=params.ignore_eos,
        temperature=params.temperature,
        seed=params.seed,
        n=params.n,
        stop=params.stop,
        structured_outputs=params.structured_outputs,
        sandbox=body.sandbox,
    )
    ((_, request),) = read_completion_requests(completion, prompt_tokens=len(body.token_ids))
    return request


def to_token_ids(choice: Choice, request: SandboxRequest) -> TokenIds:
    """The choice as bytes. It may have to be cut: the limits are of bytes here, and a step of the choice may have several."""
    remaining_tokens = request.token_limit
    steps: list[list[int]] = []
    for step in choice.steps:
        ids = list(step.text.encode())
        if len(ids) > remaining_tokens:
            return TokenIds([*steps, ids[:remaining_tokens]] if remaining_tokens else steps, request.control.finish_reason or "length")
        remaining_tokens -= len(ids)
        steps.append(ids)
    return TokenIds(steps, choice.finish_reason)


def write_usage(request: SandboxRequest, choices: Sequence[TokenIds]) -> dict[str, Any]:
    completion = sum(len(each.flat()) for each in choices)
    return {"prompt_tokens": request.prompt_tokens, "completion_tokens": completion, "total_tokens": request.prompt_tokens + completion}


def write_response(head: ResponseHead, generated: Sequence[TokenIds], usage: dict[str, Any] | None) -> dict[str, Any]:
    choices = [write_choice(index, each.flat(), each.finish_reason) for index, each in enumerate(generated)]
    return {**envelope(head, choices), "model": head.model, "created": head.created, "usage": usage}


def write_chunks(
    head: ResponseHead, generated: Sequence[TokenIds], usage: dict[str, Any] | None, *, includes_usage: bool
) -> Iterator[dict[str, Any]]:
    """The finish reason is in the chunk with a choice's last ids, as in vLLM."""
    for position, row in enumerate(zip_longest(*(each.steps or [[]] for each in generated))):
        for index, ids in enumerate(row):
            if ids is not None:
                is_last = position + 1 >= len(generated[index].steps)
                yield envelope(head, [write_choice(index, ids, generated[index].finish_reason if is_last else None)]) | {"usage": None}
    if includes_usage:
        yield envelope(head, []) | {"usage": usage}


def write_choice(index: int, ids: list[int], reason: str | None) -> dict[str, Any]:
    return {"index": index, "token_ids": ids, "finish_reason": reason, "stop_reason": None, "logprobs": None}


def envelope(head: ResponseHead, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"request_id": head.id, "output_mode": "tokens", "choices": choices}
