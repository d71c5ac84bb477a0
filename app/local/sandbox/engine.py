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

from app.local.sandbox import chat, completions, generate
from app.local.sandbox.answer import Choice, answer
from app.local.sandbox.ask import Ask, read_chat, read_completion
from app.local.sandbox.bodies import ChatBody, CompletionBody, Control, EmbeddingBody, Generation, ignored_keys, read_body
from app.local.sandbox.chat import Head
from app.local.sandbox.counting import CountBody, count_tokens
from app.local.sandbox.embeddings import embed
from app.local.sandbox.errors import Refusal, Told, UnknownRoute, WrongMethod
from app.local.sandbox.generate import GenerateBody, SamplingParams
from app.local.sandbox.line import Header, HungUp, Line, Receive, Scope, Send, sleep_until
from app.local.sandbox.meter import Meter
from app.local.sandbox.models import MODELS, OWNER, find_model, find_model_for, write_model
from app.local.sandbox.scoring import RerankBody, ScoreBody, rerank, score
from app.local.sandbox.telling import Telling
from app.local.sandbox.tokenizing import DetokenizeBody, TokenizeBody, detokenize, tokenize
from app.local.sandbox.walk import Budget

SLOTS = 256
"""Requests answered at once; the others wait, and /metrics says so."""

FLAKY_FAILURES: Sequence[int | Literal["close"]] = (500, 503, "close")

Outcome = Literal["finished", "died", "failed"]
C = TypeVar("C", RerankBody, ScoreBody)
Handler = Callable[[Line, bytes], Awaitable[Outcome]]


class Sandbox:
    """One per process. Its only state is what it counts: the requests to sandbox-flaky, and the metrics."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._meter = Meter()
        self._slots = asyncio.Semaphore(slots)
        self._asked_of_flaky = 0
        self._posts: Mapping[str, Handler] = {
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
        self._gets: Mapping[str, Callable[[], object]] = {
            "/v1/models": lambda: {"object": "list", "data": [write_model(model) for model in MODELS.values()]},
            "/health": lambda: {"status": "ok", "engine": OWNER},
            "/version": lambda: {"version": version("narthex"), "engine": OWNER, "llguidance": version("llguidance")},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"The sandbox speaks HTTP only, not {scope['type']}.")
        line = Line(scope, receive, send)
        path, method = str(scope["path"]), str(scope["method"])
        try:
            if path not in self._posts:
                await self._get(line, path, method)
            elif method != "POST":
                raise WrongMethod(f"{path} takes POST, not {method}.", "POST")
            else:
                await self._post(line, self._posts[path])
        except Refusal as refusal:
            self._meter.ended.labels(line.model, "failed" if isinstance(refusal, Told) else "refused").inc()
            anthropics = {"type": "error"} if path.startswith("/v1/messages") else {}
            await line.reply(refusal.status, {**anthropics, **refusal.envelope()}, refusal.headers())

    async def _get(self, line: Line, path: str, method: str) -> None:
        read = self._gets.get(path)
        if read is None and path != "/metrics" and not path.startswith("/v1/models/"):
            routes = ", ".join([*self._posts, *self._gets, "/v1/models/{id}", "/metrics"])
            raise UnknownRoute(f"No route {path}. The sandbox has {routes}.")
        if method not in ("GET", "HEAD"):
            raise WrongMethod(f"{path} takes GET, not {method}.", "GET, HEAD")
        if path == "/metrics":
            await line.start(200, "text")
            await line.write(self._meter.text(), is_last=True)
        else:
            await line.reply(200, read() if read else write_model(find_model(path.removeprefix("/v1/models/"))))

    async def _post(self, line: Line, handle: Handler) -> None:
        """One request, given up the moment its client is gone."""
        try:
            raw = await line.body()
        except HungUp:
            self._meter.ended.labels("", "aborted").inc()
            return
        work = asyncio.create_task(self._in_slot(line, raw, handle))
        gone = asyncio.create_task(line.hung_up())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not (work.done() or line.is_complete or line.is_cut):
                self._meter.ended.labels(line.model, "aborted").inc()
                return
            outcome = await work
            self._meter.ended.labels(line.model, outcome).inc()
            if line.is_cut:
                # Until the connection is really closed, the server would take our return for a mistake.
                await gone
        finally:
            work.cancel()
            gone.cancel()

    async def _in_slot(self, line: Line, raw: bytes, handle: Handler) -> Outcome:
        with self._meter.waiting.track_inprogress():
            await self._slots.acquire()
        try:
            with self._meter.running.track_inprogress():
                return await handle(line, raw)
        finally:
            self._slots.release()

    async def _chat(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, ChatBody)
        telling = self._telling(line, body.model, body.sandbox)
        ask = read_chat(body)
        if await self._fails(line, telling):
            return "failed"
        choices = await answers([ask])
        usage = chat.write_usage(ask.prompt_tokens, choices)
        head, headers = Head(f"chatcmpl-{uuid4().hex}", int(time.time()), body.model), told_headers(raw, ChatBody)
        told_usage = usage if ask.control.usage else None
        if body.stream:
            frames = chat.write_chunks(head, choices, told_usage, includes_usage=includes_usage(body))
            outcome = await telling.stream(line, list(frames), headers)
        else:
            outcome = await telling.whole(line, chat.write_whole(head, choices, told_usage), beats(choices), headers)
        self._count(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    async def _complete(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, CompletionBody)
        telling = self._telling(line, body.model, body.sandbox)
        asks = read_completion(body)
        if await self._fails(line, telling):
            return "failed"
        choices = await answers([ask for _, ask in asks])
        echoes = [prompt if body.echo else "" for prompt, ask in asks for _ in range(ask.n)]
        pairs = list(zip(echoes, choices, strict=True))
        usage = chat.write_usage(sum(ask.prompt_tokens for _, ask in asks), choices)
        head, headers = Head(f"cmpl-{uuid4().hex}", int(time.time()), body.model), told_headers(raw, CompletionBody)
        told_usage = usage if telling.control.usage else None
        if body.stream:
            frames = completions.write_chunks(head, pairs, told_usage, includes_usage=includes_usage(body))
            outcome = await telling.stream(line, list(frames), headers)
        else:
            outcome = await telling.whole(line, completions.write_whole(head, pairs, told_usage), beats(choices), headers)
        self._count(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    async def _embed(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, EmbeddingBody)
        telling = self._telling(line, body.model, body.sandbox, embeddings=True)
        if await self._fails(line, telling):
            return "failed"
        answered = await asyncio.to_thread(embed, body)
        outcome = await telling.whole(line, answered, 1, told_headers(raw, EmbeddingBody))
        self._count(outcome, answered["usage"]["prompt_tokens"], 0)
        return outcome

    async def _count_tokens(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, CountBody)
        telling = self._telling(line, body.model, body.sandbox)
        if await self._fails(line, telling):
            return "failed"
        return await telling.whole(line, {"input_tokens": count_tokens(body)}, 1, told_headers(raw, CountBody))

    async def _tokenize(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, TokenizeBody)
        telling = self._telling(line, body.model, body.sandbox)
        if await self._fails(line, telling):
            return "failed"
        return await telling.whole(line, tokenize(body), 1, told_headers(raw, TokenizeBody))

    async def _detokenize(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, DetokenizeBody)
        telling = self._telling(line, body.model, body.sandbox)
        if await self._fails(line, telling):
            return "failed"
        return await telling.whole(line, detokenize(body), 1, told_headers(raw, DetokenizeBody))

    async def _rerank(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, RerankBody)
        return await self._compare(line, body, rerank, told_headers(raw, RerankBody))

    async def _score(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, ScoreBody)
        return await self._compare(line, body, score, told_headers(raw, ScoreBody))

    async def _compare(self, line: Line, body: C, compare: Callable[[C], dict[str, Any]], headers: Sequence[Header]) -> Outcome:
        telling = self._telling(line, body.model, body.sandbox, embeddings=True)
        if await self._fails(line, telling):
            return "failed"
        compared = await asyncio.to_thread(compare, body)
        outcome = await telling.whole(line, compared, 1, headers)
        self._count(outcome, compared["usage"]["prompt_tokens"], 0)
        return outcome

    async def _generate(self, line: Line, raw: bytes) -> Outcome:
        body = read_body(raw, GenerateBody)
        telling = self._telling(line, body.model, body.sandbox)
        ask = generate.read_generate(body)
        if await self._fails(line, telling):
            return "failed"
        made = [generate.as_ids(choice, ask) for choice in await answers([ask])]
        usage = generate.write_usage(ask, made)
        head = Head(body.request_id or f"generate-tokens-{uuid4().hex}", int(time.time()), body.model)
        headers = told_headers(raw, GenerateBody, {"sampling_params": SamplingParams})
        told_usage = usage if telling.control.usage else None
        if body.stream:
            frames = generate.write_chunks(head, made, told_usage, includes_usage=includes_usage(body))
            outcome = await telling.stream(line, list(frames), headers)
        else:
            outcome = await telling.whole(
                line, generate.write_whole(head, made, told_usage), sum(len(each.steps) for each in made), headers
            )
        self._count(outcome, usage["prompt_tokens"], usage["completion_tokens"])
        return outcome

    def _telling(self, line: Line, model: str, control: Control | None, *, embeddings: bool = False) -> Telling:
        found = find_model_for(model, embeddings=embeddings)
        line.model = found.id
        return Telling(found, control or Control(), asyncio.get_running_loop().time())

    async def _fails(self, line: Line, telling: Telling) -> bool:
        """Whether the connection was closed instead of an answer. Raises Told for the failures that have a status."""
        failure, why = telling.control.fail, "the request says so"
        if failure is None and telling.model.is_flaky:
            self._asked_of_flaky += 1
            turn, place = divmod(self._asked_of_flaky, 3)
            if place == 0:
                failure, why = FLAKY_FAILURES[(turn - 1) % 3], f"{telling.model.id} fails every third request"
        if failure is None:
            return False
        await sleep_until(telling.started_s + telling.control.delay_ms / 1000)
        if failure != "close":
            raise Told(failure, why, telling.control.retry_after_s)
        line.cut()
        return True

    def _count(self, outcome: Outcome, prompt_tokens: int, completion_tokens: int) -> None:
        self._meter.prompt_tokens.inc(prompt_tokens)
        if outcome == "finished":
            self._meter.completion_tokens.inc(completion_tokens)


async def answers(asks: Sequence[Ask]) -> list[Choice]:
    """All choices of all asks. What may take long is done on a thread, and called off there if nobody waits any more."""
    budget = Budget()

    def make() -> list[Choice]:
        return [choice for ask in asks for choice in answer(ask, budget)]

    if not any(ask.constraint or ask.tools.offers or ask.control.tokens for ask in asks):
        return make()
    try:
        return await asyncio.to_thread(make)
    finally:
        budget.call_off()


def includes_usage(body: Generation | GenerateBody) -> bool:
    options = body.stream_options
    return options is not None and options.include_usage and (body.sandbox is None or body.sandbox.usage)


def beats(choices: Sequence[Choice]) -> int:
    """As many as a stream of these choices has frames."""
    return sum(len(choice.steps) + 2 for choice in choices)


def told_headers(raw: bytes, kind: type[Struct], within: Mapping[str, type[Struct]] | None = None) -> list[Header]:
    """`within`: the objects of a body whose own keys are told too."""
    ignored = ignored_keys(raw, kind)
    for name, part in (within or {}).items():
        ignored += [f"{name}.{key}" for key in ignored_keys(raw, part, name)]
    ignored = [key for key in ignored if key.isascii() and key.isprintable()]
    return [(b"x-sandbox-ignored", ", ".join(ignored)[:1000].encode())] if ignored else []
