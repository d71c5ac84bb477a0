"""vLLM's route for tokens, on the wire: ids in, ids out. There is no vocabulary here, so a token id is a byte of the text, in UTF-8."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.local.sandbox.answer import Choice
from app.local.sandbox.ask import Ask, read_completion, within_context
from app.local.sandbox.bodies import CompletionBody, Control, Count, StreamOptions, StructuredOutputs
from app.local.sandbox.chat import Head


class SamplingParams(Struct, frozen=True, kw_only=True):
    max_tokens: Count | None = None
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
class Ids:
    """One answer: the ids of each step that was taken, and why it ended."""

    steps: Sequence[list[int]]
    finish_reason: str

    def all(self) -> list[int]:
        return [id for step in self.steps for id in step]


def read_generate(body: GenerateBody) -> Ask:
    params = body.sampling_params
    heard = bytes(id % 256 for id in body.token_ids).decode("utf-8", "replace")
    completion = CompletionBody(
        model=body.model,
        prompt=heard,
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        seed=params.seed,
        n=params.n,
        stop=params.stop,
        structured_outputs=params.structured_outputs,
        sandbox=body.sandbox,
    )
    ((_, ask),) = read_completion(completion)
    return replace(ask, prompt_tokens=within_context(len(body.token_ids)))


def as_ids(choice: Choice, ask: Ask) -> Ids:
    """A choice is made within so many words, of which each is at least a byte; so it may have to be cut."""
    room = ask.max_tokens
    steps: list[list[int]] = []
    for step in choice.steps:
        ids = list(step.text.encode())
        if room is not None and len(ids) > room:
            return Ids([*steps, ids[:room]] if room else steps, ask.control.finish_reason or "length")
        room = None if room is None else room - len(ids)
        steps.append(ids)
    return Ids(steps, choice.finish_reason)


def write_usage(ask: Ask, answers: Sequence[Ids]) -> dict[str, Any]:
    completion = sum(len(each.all()) for each in answers)
    return {"prompt_tokens": ask.prompt_tokens, "completion_tokens": completion, "total_tokens": ask.prompt_tokens + completion}


def write_whole(head: Head, answers: Sequence[Ids], usage: dict[str, Any] | None) -> dict[str, Any]:
    choices = [write_choice(index, each.all(), each.finish_reason) for index, each in enumerate(answers)]
    return {**envelope(head, choices), "model": head.model, "created": head.created, "usage": usage}


def write_chunks(head: Head, answers: Sequence[Ids], usage: dict[str, Any] | None, *, includes_usage: bool) -> Iterator[dict[str, Any]]:
    """The last ids of a choice come with why it ended, as vLLM tells it."""
    for place, row in enumerate(zip_longest(*(each.steps or [[]] for each in answers))):
        for index, ids in enumerate(row):
            if ids is not None:
                is_last = place + 1 >= len(answers[index].steps)
                yield envelope(head, [write_choice(index, ids, answers[index].finish_reason if is_last else None)]) | {"usage": None}
    if includes_usage:
        yield envelope(head, []) | {"usage": usage}


def write_choice(index: int, ids: list[int], reason: str | None) -> dict[str, Any]:
    return {"index": index, "token_ids": ids, "finish_reason": reason, "stop_reason": None, "logprobs": None}


def envelope(head: Head, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"request_id": head.id, "output_mode": "tokens", "choices": choices}
