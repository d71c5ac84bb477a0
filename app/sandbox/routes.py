"""The sandbox's POST routes: for each, the body that it reads and the function that makes a response of it.

Most are OpenAI's. Anthropic's is counting tokens; vLLM's are generation from token ids, tokenize and detokenize, rerank and score.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from msgspec import Struct

from app.sandbox import chat_response, completion_response, vllm_generate
from app.sandbox.anthropic_count_tokens import CountTokensBody, count_tokens
from app.sandbox.choices import Choice, generate_choices
from app.sandbox.embeddings import create_embeddings
from app.sandbox.protocol.request_schema import ChatBody, CompletionBody, Control, EmbeddingBody, GenerationBody
from app.sandbox.request import SandboxRequest, read_chat_request, read_completion_requests
from app.sandbox.response_head import ResponseHead, write_usage
from app.sandbox.text.grammar_walk import Budget
from app.sandbox.vllm_generate import GenerateBody, SamplingParams
from app.sandbox.vllm_score import RerankBody, ScoreBody, rerank, score
from app.sandbox.vllm_tokenize import DetokenizeBody, TokenizeBody, detokenize, tokenize


class SandboxBody(Protocol):
    """The fields that every request body has."""

    @property
    def model(self) -> str: ...
    @property
    def sandbox(self) -> Control | None: ...


@dataclass(frozen=True, slots=True)
class GeneratedResponse:
    """A response, or what writes it."""

    # the `frame_count` frames of a stream, written as they are taken, or a document that takes as long as such a stream
    content: Iterator[dict[str, Any]] | dict[str, Any]
    frame_count: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0


QUICK_CHOICES, QUICK_TOKENS = 4, 250
"""Up to so many choices of so many tokens are generated on the event loop."""

Generate = Callable[[], Awaitable[GeneratedResponse]]
B = TypeVar("B", bound=Struct)


@dataclass(frozen=True, slots=True)
class Route(Generic[B]):
    """A route of the sandbox; `prepare` validates the body and returns the function that generates the response."""

    body: type[B]
    prepare: Callable[[B], Generate]
    embeds: bool = False  # for the embedding model instead of the others
    # objects in the body whose ignored fields are reported too
    nested: Mapping[str, type[Struct]] = field(default_factory=dict[str, type[Struct]])


def prepare_chat(body: ChatBody) -> Generate:
    request = read_chat_request(body)

    def write(choices: Sequence[Choice]) -> GeneratedResponse:
        usage = write_usage(request.prompt_tokens, choices)
        head = ResponseHead(f"chatcmpl-{uuid4().hex}", int(time.time()), body.model)
        reported_usage = usage if request.control.usage else None
        content = (
            chat_response.write_chunks(head, choices, reported_usage, includes_usage=includes_usage(body))
            if body.stream
            else chat_response.write_response(head, choices, reported_usage)
        )
        # The role before the steps, and the finish reason after them.
        frame_count = sum(len(choice.steps) + 2 for choice in choices) + includes_usage(body)
        return GeneratedResponse(content, frame_count, usage["prompt_tokens"], usage["completion_tokens"])

    return partial(generate_response, [request], write)


def prepare_completion(body: CompletionBody) -> Generate:
    requests = read_completion_requests(body)

    def write(choices: Sequence[Choice]) -> GeneratedResponse:
        echoes = [prompt if body.echo else "" for prompt, request in requests for _ in range(request.n)]
        pairs = list(zip(echoes, choices, strict=True))
        usage = write_usage(sum(request.prompt_tokens for _, request in requests), choices)
        head = ResponseHead(f"cmpl-{uuid4().hex}", int(time.time()), body.model)
        reported_usage = usage if body.sandbox is None or body.sandbox.usage else None
        content = (
            completion_response.write_chunks(head, pairs, reported_usage, includes_usage=includes_usage(body))
            if body.stream
            else completion_response.write_response(head, pairs, reported_usage)
        )
        frame_count = sum(bool(echo) + len(choice.steps) + 1 for echo, choice in pairs) + includes_usage(body)
        return GeneratedResponse(content, frame_count, usage["prompt_tokens"], usage["completion_tokens"])

    return partial(generate_response, [request for _, request in requests], write)


def prepare_generate(body: GenerateBody) -> Generate:
    request = vllm_generate.read_generate_request(body)

    def write(choices: Sequence[Choice]) -> GeneratedResponse:
        generated = [vllm_generate.to_token_ids(choice, request) for choice in choices]
        usage = vllm_generate.write_usage(request, generated)
        head = ResponseHead(body.request_id or f"generate-tokens-{uuid4().hex}", int(time.time()), body.model)
        reported_usage = usage if request.control.usage else None
        content = (
            vllm_generate.write_chunks(head, generated, reported_usage, includes_usage=includes_usage(body))
            if body.stream
            else vllm_generate.write_response(head, generated, reported_usage)
        )
        frame_count = sum(len(each.steps) or 1 for each in generated) + includes_usage(body)
        return GeneratedResponse(content, frame_count, usage["prompt_tokens"], usage["completion_tokens"])

    return partial(generate_response, [request], write)


def prepare_comparison(create: Callable[[B], dict[str, Any]]) -> Callable[[B], Generate]:
    """Prepares embeddings and what compares them: computed on a thread, with the prompt's tokens in `usage`."""

    def prepare(body: B) -> Generate:
        async def generate() -> GeneratedResponse:
            document = await asyncio.to_thread(create, body)
            return GeneratedResponse(document, prompt_tokens=document["usage"]["prompt_tokens"])

        return generate

    return prepare


def prepare_document(create: Callable[[B], dict[str, Any]]) -> Callable[[B], Generate]:
    """Prepares a response of a route that answers at once and uses no tokens.

    The document is computed here, because a large body is prepared on a thread.
    """

    def prepare(body: B) -> Generate:
        document = create(body)

        async def generate() -> GeneratedResponse:
            return GeneratedResponse(document)

        return generate

    return prepare


Write = Callable[[Sequence[Choice]], GeneratedResponse]


async def generate_response(requests: Sequence[SandboxRequest], write: Write) -> GeneratedResponse:
    """The response with all choices of all requests. Slow work runs on a thread, and stops there if this task is cancelled."""
    budget = Budget()

    def generate() -> GeneratedResponse:
        return write([choice for request in requests for choice in generate_choices(request, budget)])

    if sum(request.n for request in requests) <= QUICK_CHOICES and not any(may_be_slow(request) for request in requests):
        return generate()
    try:
        return await asyncio.to_thread(generate)
    finally:
        budget.cancel()


def may_be_slow(request: SandboxRequest) -> bool:
    """Whether a choice may take more than a millisecond or two."""
    lengths = (request.control.tokens, request.unending_tokens, request.min_tokens, len(request.control.say or ""))
    return bool(request.constraint or request.tools.tools) or max(length or 0 for length in lengths) > QUICK_TOKENS


def includes_usage(body: GenerationBody | GenerateBody) -> bool:
    options = body.stream_options
    return options is not None and options.include_usage and (body.sandbox is None or body.sandbox.usage)


RERANK = Route(RerankBody, prepare_comparison(rerank), embeds=True)
SCORE = Route(ScoreBody, prepare_comparison(score), embeds=True)

ROUTES: Mapping[str, Route[Any]] = {
    "/v1/chat/completions": Route(ChatBody, prepare_chat),
    "/v1/completions": Route(CompletionBody, prepare_completion),
    "/v1/embeddings": Route(EmbeddingBody, prepare_comparison(create_embeddings), embeds=True),
    "/v1/messages/count_tokens": Route(CountTokensBody, prepare_document(lambda body: {"input_tokens": count_tokens(body)})),
    "/inference/v1/generate": Route(GenerateBody, prepare_generate, nested={"sampling_params": SamplingParams}),
    "/tokenize": Route(TokenizeBody, prepare_document(tokenize)),
    "/detokenize": Route(DetokenizeBody, prepare_document(detokenize)),
    "/rerank": RERANK,
    "/v1/rerank": RERANK,
    "/score": SCORE,
    "/v1/score": SCORE,
}
