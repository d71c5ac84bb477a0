"""The sandbox engine: an ASGI app that answers as OpenAI does, in the manner of its models and as its requests tell it to.

Others' own are Anthropic's count of tokens, and of vLLM's: token ids in and out, tokenize and detokenize, rerank and score.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal, TypeVar
from uuid import uuid4

from msgspec import Struct

from app.sandbox import chat_response, completion_response, vllm_generate
from app.sandbox.anthropic_count_tokens import CountTokensBody, count_tokens
from app.sandbox.chat_response import ResponseHead
from app.sandbox.choices import Choice, generate_choices
from app.sandbox.connection import ClientConnection, ClientDisconnected, Header, Receive, Scope, Send, sleep_until
from app.sandbox.embeddings import create_embeddings
from app.sandbox.errors import MethodNotAllowed, RequestedFailure, SandboxError, UnknownRoute
from app.sandbox.grammar_walk import Budget
from app.sandbox.metrics import Metrics
from app.sandbox.models import MODELS, OWNER, find_model, find_model_for, write_model
from app.sandbox.pacing import PacedResponse
from app.sandbox.request import SandboxRequest, read_chat_request, read_completion_requests
from app.sandbox.request_schema import ChatBody, CompletionBody, Control, EmbeddingBody, GenerationBody, ignored_keys, read_body
from app.sandbox.vllm_generate import GenerateBody, SamplingParams
from app.sandbox.vllm_score import RerankBody, ScoreBody, rerank, score
from app.sandbox.vllm_tokenize import DetokenizeBody, TokenizeBody, detokenize, tokenize

SLOTS = 256
"""Requests answered at once; the others wait, and /metrics says so."""

FLAKY_OUTCOMES: Sequence[int | Literal["close"]] = (500, 503, "close")

Outcome = Literal["finished", "died", "failed"]
C = TypeVar("C", RerankBody, ScoreBody)
Handler = Callable[[ClientConnection, bytes], Awaitable[Outcome]]


class SandboxApp:
    """One per process. Its only state is what it counts: the requests to sandbox-flaky, and the metrics."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._metrics = Metrics()
        self._slots = asyncio.Semaphore(slots)
        self._flaky_requests = 0
        self._post_handlers: Mapping[str, Handler] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/v1/embeddings": self._embed,
            "/v1/messages/count_tokens": self._count_tokens,
            "/inference/v1/generate": self._generate,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            **dict.fromkeys(("/rerank", "/v1/rerank"), self._rerank),
            **dict.fromkeys(("/score", "/v1/score"), self._score),
        }
        self._get_documents: Mapping[str, Callable[[], object]] = {
            "/v1/models": lambda: {"object": "list", "data": [write_model(model) for model in MODELS.values()]},
            "/health": lambda: {"status": "ok", "engine": OWNER},
            "/version": lambda: {"version": version("narthex"), "engine": OWNER, "llguidance": version("llguidance")},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"The sandbox speaks HTTP only, not {scope['type']}.")
        connection = ClientConnection(scope, receive, send)
        path, method = str(scope["path"]), str(scope["method"])
        try:
            if path not in self._post_handlers:
                await self._handle_get(connection, path, method)
            elif method != "POST":
                raise MethodNotAllowed(f"{path} takes POST, not {method}.", "POST")
            else:
                await self._handle_post(connection, self._post_handlers[path])
        except SandboxError as refusal:
            self._metrics.requests.labels(connection.model, "failed" if isinstance(refusal, RequestedFailure) else "refused").inc()
            anthropic_fields = {"type": "error"} if path.startswith("/v1/messages") else {}
            await connection.send_json(refusal.status, {**anthropic_fields, **refusal.envelope()}, refusal.response_headers())

    async def _handle_get(self, connection: ClientConnection, path: str, method: str) -> None:
        build_document = self._get_documents.get(path)
        if build_document is None and path != "/metrics" and not path.startswith("/v1/models/"):
            routes = ", ".join([*self._post_handlers, *self._get_documents, "/v1/models/{id}", "/metrics"])
            raise UnknownRoute(f"No route {path}. The sandbox has {routes}.")
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{path} takes GET, not {method}.", "GET, HEAD")
        if path == "/metrics":
            await connection.start_response(200, "text")
            await connection.write(self._metrics.text(), is_last=True)
        else:
            await connection.send_json(
                200, build_document() if build_document else write_model(find_model(path.removeprefix("/v1/models/")))
            )

    async def _handle_post(self, connection: ClientConnection, handle: Handler) -> None:
        """One request, given up the moment its client is gone."""
        try:
            raw = await connection.read_body()
        except ClientDisconnected:
            self._metrics.requests.labels("", "aborted").inc()
            return
        work = asyncio.create_task(self._run_in_slot(connection, raw, handle))
        disconnect = asyncio.create_task(connection.wait_for_disconnect())
        try:
            await asyncio.wait((work, disconnect), return_when=asyncio.FIRST_COMPLETED)
            if not (work.done() or connection.is_complete or connection.is_cut):
                self._metrics.requests.labels(connection.model, "aborted").inc()
                return
            outcome = await work
            self._metrics.requests.labels(connection.model, outcome).inc()
            if connection.is_cut:
                # Until the connection is really closed, the server would take our return for a mistake.
                await disconnect
        finally:
            work.cancel()
            disconnect.cancel()

    async def _run_in_slot(self, connection: ClientConnection, raw: bytes, handle: Handler) -> Outcome:
        with self._metrics.waiting.track_inprogress():
            await self._slots.acquire()
        try:
            with self._metrics.running.track_inprogress():
                return await handle(connection, raw)
        finally:
            self._slots.release()

    async def _chat(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, ChatBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        request = read_chat_request(body)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        choices = await generate_all_choices([request])
        usage = chat_response.write_usage(request.prompt_tokens, choices)
        head, headers = ResponseHead(f"chatcmpl-{uuid4().hex}", int(time.time()), body.model), ignored_fields_header(raw, ChatBody)
        reported_usage = usage if request.control.usage else None
        if body.stream:
            frames = chat_response.write_chunks(head, choices, reported_usage, includes_usage=includes_usage(body))
            outcome = await paced.send_stream(connection, list(frames), headers)
        else:
            outcome = await paced.send_response(
                connection, chat_response.write_response(head, choices, reported_usage), count_frames(choices), headers
            )
        self._record_tokens(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    async def _complete(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, CompletionBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        requests = read_completion_requests(body)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        choices = await generate_all_choices([request for _, request in requests])
        echoes = [prompt if body.echo else "" for prompt, ask in requests for _ in range(ask.n)]
        pairs = list(zip(echoes, choices, strict=True))
        usage = chat_response.write_usage(sum(ask.prompt_tokens for _, ask in requests), choices)
        head, headers = ResponseHead(f"cmpl-{uuid4().hex}", int(time.time()), body.model), ignored_fields_header(raw, CompletionBody)
        reported_usage = usage if paced.control.usage else None
        if body.stream:
            frames = completion_response.write_chunks(head, pairs, reported_usage, includes_usage=includes_usage(body))
            outcome = await paced.send_stream(connection, list(frames), headers)
        else:
            outcome = await paced.send_response(
                connection, completion_response.write_response(head, pairs, reported_usage), count_frames(choices), headers
            )
        self._record_tokens(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    async def _embed(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, EmbeddingBody)
        paced = self._paced_response(connection, body.model, body.sandbox, embeddings=True)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        response = await asyncio.to_thread(create_embeddings, body)
        outcome = await paced.send_response(connection, response, 1, ignored_fields_header(raw, EmbeddingBody))
        self._record_tokens(outcome, response["usage"]["prompt_tokens"], 0)
        return outcome

    async def _count_tokens(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, CountTokensBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        return await paced.send_response(connection, {"input_tokens": count_tokens(body)}, 1, ignored_fields_header(raw, CountTokensBody))

    async def _tokenize(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, TokenizeBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        return await paced.send_response(connection, tokenize(body), 1, ignored_fields_header(raw, TokenizeBody))

    async def _detokenize(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, DetokenizeBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        return await paced.send_response(connection, detokenize(body), 1, ignored_fields_header(raw, DetokenizeBody))

    async def _rerank(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, RerankBody)
        return await self._compare(connection, body, rerank, ignored_fields_header(raw, RerankBody))

    async def _score(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, ScoreBody)
        return await self._compare(connection, body, score, ignored_fields_header(raw, ScoreBody))

    async def _compare(
        self, connection: ClientConnection, body: C, compare: Callable[[C], dict[str, Any]], headers: Sequence[Header]
    ) -> Outcome:
        paced = self._paced_response(connection, body.model, body.sandbox, embeddings=True)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        response = await asyncio.to_thread(compare, body)
        outcome = await paced.send_response(connection, response, 1, headers)
        self._record_tokens(outcome, response["usage"]["prompt_tokens"], 0)
        return outcome

    async def _generate(self, connection: ClientConnection, raw: bytes) -> Outcome:
        body = read_body(raw, GenerateBody)
        paced = self._paced_response(connection, body.model, body.sandbox)
        request = vllm_generate.read_generate_request(body)
        if await self._fail_if_requested(connection, paced):
            return "failed"
        generated = [vllm_generate.to_token_ids(choice, request) for choice in await generate_all_choices([request])]
        usage = vllm_generate.write_usage(request, generated)
        head = ResponseHead(body.request_id or f"generate-tokens-{uuid4().hex}", int(time.time()), body.model)
        headers = ignored_fields_header(raw, GenerateBody, {"sampling_params": SamplingParams})
        reported_usage = usage if paced.control.usage else None
        if body.stream:
            frames = vllm_generate.write_chunks(head, generated, reported_usage, includes_usage=includes_usage(body))
            outcome = await paced.send_stream(connection, list(frames), headers)
        else:
            outcome = await paced.send_response(
                connection,
                vllm_generate.write_response(head, generated, reported_usage),
                sum(len(each.steps) for each in generated),
                headers,
            )
        self._record_tokens(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    def _paced_response(
        self, connection: ClientConnection, model: str, control: Control | None, *, embeddings: bool = False
    ) -> PacedResponse:
        found_model = find_model_for(model, embeddings=embeddings)
        connection.model = found_model.id
        return PacedResponse(found_model, control or Control(), asyncio.get_running_loop().time())

    async def _fail_if_requested(self, connection: ClientConnection, paced: PacedResponse) -> bool:
        """Whether the connection was closed instead of an answer. Raises Told for the failures that have a status."""
        failure, reason = paced.control.fail, "the request says so"
        if failure is None and paced.model.is_flaky:
            self._flaky_requests += 1
            cycle, position = divmod(self._flaky_requests, 3)
            if position == 0:
                failure, reason = FLAKY_OUTCOMES[(cycle - 1) % 3], f"{paced.model.id} fails every third request"
        if failure is None:
            return False
        await sleep_until(paced.started_s + paced.control.delay_ms / 1000)
        if failure != "close":
            raise RequestedFailure(failure, reason, paced.control.retry_after_s)
        connection.cut()
        return True

    def _record_tokens(self, outcome: Outcome, prompt_tokens: int, completion_tokens: int) -> None:
        self._metrics.prompt_tokens.inc(prompt_tokens)
        if outcome == "finished":
            self._metrics.completion_tokens.inc(completion_tokens)


async def generate_all_choices(requests: Sequence[SandboxRequest]) -> list[Choice]:
    """All choices of all asks. What may take long is done on a thread, and called off there if nobody waits any more."""
    budget = Budget()

    def generate() -> list[Choice]:
        return [choice for request in requests for choice in generate_choices(request, budget)]

    if not any(ask.constraint or ask.tools.tools or ask.control.tokens for ask in requests):
        return generate()
    try:
        return await asyncio.to_thread(generate)
    finally:
        budget.cancel()


def includes_usage(body: GenerationBody | GenerateBody) -> bool:
    options = body.stream_options
    return options is not None and options.include_usage and (body.sandbox is None or body.sandbox.usage)


def count_frames(choices: Sequence[Choice]) -> int:
    """As many as a stream of these choices has frames."""
    return sum(len(choice.steps) + 2 for choice in choices)


def ignored_fields_header(raw: bytes, kind: type[Struct], nested: Mapping[str, type[Struct]] | None = None) -> list[Header]:
    """`within`: the objects of a body whose own keys are told too."""
    ignored = ignored_keys(raw, kind)
    for name, part in (nested or {}).items():
        ignored += [f"{name}.{key}" for key in ignored_keys(raw, part, name)]
    ignored = [key for key in ignored if key.isascii() and key.isprintable()]
    return [(b"x-sandbox-ignored", ", ".join(ignored)[:1000].encode())] if ignored else []
