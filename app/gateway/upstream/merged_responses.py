"""Several responses as one: of requests that were split because their target gives one choice, or takes one input, at a time."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.emulation.response_trimmer import ResponseTrimmer
from app.gateway.response_translation.write_response import EMPTY_ANSWER
from app.gateway.response_translation.written_tokens import WrittenTokenCounter
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, UpstreamError
from providers.canonical.events import ChoiceFinished, Event, ResponseStarted, UsageReported
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.usage_sums import sum_usage
from providers.dialect import CallerChatDialect, OutboundResponse, ResponseMeta

# Events that wait for a slow caller.
_MAX_WAITING_EVENTS = 64

EventSource = Callable[[], AsyncGenerator[Event]]


class MergedEvents:
    """The events of several responses, each with one choice, as those of one response with as many. As they arrive.

    There is one of `sources` for each choice, and `concurrency` of them are read at once. Iterate once; close() ends what still runs. The
    usage is the sum, and comes last; none comes if one of the responses reported none.
    """

    def __init__(self, sources: Sequence[EventSource], concurrency: int) -> None:
        self._sources = iter(enumerate(sources))
        self._count = len(sources)
        self._concurrency = min(concurrency, len(sources))
        self._queue: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue(_MAX_WAITING_EVENTS)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aiter__(self) -> AsyncIterator[Event]:
        usages: dict[int, Usage] = {}
        self._tasks = [asyncio.create_task(self._read_sources()) for _ in range(self._concurrency)]
        running, has_started = len(self._tasks), False
        while running:
            match await self._queue.get():
                case None:
                    running -= 1
                case Exception() as error:
                    raise error
                case (_, ResponseStarted() as event):
                    if not has_started:
                        has_started = True
                        yield event
                case (choice, UsageReported(usage=usage)):
                    usages[choice] = usage
                case (choice, event):
                    yield replace(event, choice=choice)
        if len(usages) == self._count:
            yield UsageReported(sum_usage(list(usages.values())))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _read_sources(self) -> None:
        try:
            for choice, source in self._sources:
                async with contextlib.aclosing(source()) as events:
                    async for event in events:
                        await self._queue.put((choice, event))
        except Exception as error:
            await self._queue.put(error)
        else:
            await self._queue.put(None)


class MergedStream:
    """A providers.dialect.StreamEditor for merged events: blocks() are the caller's bytes already, which feed() passes on."""

    def __init__(self, caller_dialect: CallerChatDialect, meta: ResponseMeta, trimmer: ResponseTrimmer | None) -> None:
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.failure: UpstreamError | None = None
        self.done = False
        self._meta = meta
        self._trimmer = trimmer
        self._writer = caller_dialect.stream_writer(meta)
        self._token_counter = WrittenTokenCounter()

    @property
    def written_tokens(self) -> int:
        return self._token_counter.tokens

    async def blocks(self, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
        async for event in events:
            for kept in (event,) if self._trimmer is None else self._trimmer.trim((event,)):
                self._observe(kept)
                written = self._writer.feed(kept)
                if written:
                    yield written
            if self._trimmer is not None and self._trimmer.has_ended:
                break
        self.done = True

    def feed(self, block: bytes) -> bytes:
        return block

    def finish(self) -> bytes:
        is_cut = self._trimmer is not None and self._trimmer.has_ended
        if not is_cut and self._token_counter.is_empty(self.finish_reason, self.usage):
            raise InvalidUpstreamResponse(EMPTY_ANSWER)
        last = b""
        if self.usage is None and self._meta.wants_usage:
            last = self._writer.feed(UsageReported(self._meta.estimate_usage(self.written_tokens)))
        return last + self._writer.finish()

    def write_failure(self, error: NarthexError) -> bytes:
        return self._writer.write_failure(error)

    def _observe(self, event: Event) -> None:
        self._token_counter.observe(event)
        match event:
            case ChoiceFinished():
                if event.choice == 0 or self.finish_reason is None:
                    self.finish_reason = recorded_finish_reason(event.reason, event.upstream_finish_reason)
            case UsageReported():
                self.usage = event.usage
            case ResponseStarted():
                self.model = read_model_name(event.model)
            case _:
                pass


class _Embeddings(Struct):
    data: list[dict[str, Raw]]
    model: Raw


_decode_embeddings = msgspec.json.Decoder(_Embeddings).decode


def merge_embeddings(responses: Sequence[OutboundResponse]) -> OutboundResponse:
    """Responses of OpenAI's embeddings as one, with their vectors in order. Raises InvalidUpstreamResponse."""
    try:
        parts = [_decode_embeddings(each.raw) for each in responses]
    except DECODE_ERRORS as fault:
        raise InvalidUpstreamResponse(f"The host's embeddings are not of the shape that its API promises: {fault}.") from None
    vectors = [vector for part in parts for vector in _in_order(part.data)]
    body: dict[str, Any] = {
        "object": "list",
        "data": [{**vector, "index": index} for index, vector in enumerate(vectors)],
        "model": parts[0].model,
    }
    usages = [each.usage for each in responses]
    usage = sum_usage([each for each in usages if each is not None]) if None not in usages else None
    if usage is not None and usage.input is not None:
        body["usage"] = {"prompt_tokens": usage.input, "total_tokens": usage.input}
    return OutboundResponse(msgspec.json.encode(body), usage, responses[0].finish_reason, responses[0].model)


def _in_order(vectors: list[dict[str, Raw]]) -> Iterator[dict[str, Raw]]:
    return iter(sorted(vectors, key=lambda vector: int(bytes(vector.get("index", Raw(b"0"))))))
