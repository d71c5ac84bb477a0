"""The road of one request, top to bottom. READ THIS FIRST.

1  api/        who asks (app/api/door.py has done this before it calls serve)
2  open        the bytes are an ask of the caller's dialect: checked, and read no further than the road needs
3  plan        the name asked for becomes targets in order
4  limits      what it will need is taken from every rule about it, or it is refused
5  attempt     targets are tried until one serves
6  translate   the engine's answer becomes the caller's: same dialect, an edit of the bytes; another, through its meaning
8  relay       each block goes on at once; what ends the answer only when the exchange is in the spool
9  the Door    (app/api/door.py again) ends whatever is left, however it ended
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import httpx
import msgspec

from app import uuid7
from app.domain import Caller, Outcome
from app.gateway.asked import Asked
from app.gateway.asking import Streaming
from app.gateway.attempt import Attempts
from app.gateway.bill import needed, spent
from app.gateway.checks import Checks
from app.gateway.conversations import Conversations
from app.gateway.fleet import Fleet
from app.gateway.idempotency import HEADER, Idempotency
from app.gateway.limits.limits import Limits
from app.gateway.media import Media
from app.gateway.plan import check_episode, plan
from app.gateway.underway import Underway
from app.record.spool import Spool, SpoolFull
from app.settings import Settings
from app.store.answers import Answer
from app.store.live import Live
from app.telemetry import Telemetry
from providers.dialect import Ask, Dialect, Stamp
from providers.errors import Malformed, Unavailable, UpstreamError
from providers.estimate import text_tokens
from providers.wire import Body

_MOST_TAGS = 64
_LONGEST_TAG = 512
# How long an engine may take to end a stream whose last frame it has sent, before its connection is given up instead of kept.
_END_OF_STREAM_S = 0.25


class Out(Protocol):
    """Where the answer goes; the API's side of it knows headers and frames of ASGI."""

    async def whole(self, body: bytes) -> None: ...

    async def replay(self, answer: Answer) -> None: ...

    async def begin(self, first: bytes) -> None: ...

    async def more(self, data: bytes) -> None: ...

    async def end(self, last: bytes) -> None: ...


class Gateway:
    """The parts that every request needs, put together once (app/main.py)."""

    def __init__(
        self,
        settings: Settings,
        live: Live,
        fleet: Fleet,
        limits: Limits,
        transport: httpx.AsyncBaseTransport,
        spool: Spool,
        telemetry: Telemetry,
        idempotency: Idempotency,
        media: Media,
        conversations: Conversations,
        checks: Checks,
    ) -> None:
        self.settings = settings
        self.live = live
        self.fleet = fleet
        self.limits = limits
        self.attempts = Attempts(settings, fleet, limits, checks, transport)
        self.spool = spool
        self.telemetry = telemetry
        self.idempotency = idempotency
        self.media = media
        self.conversations = conversations
        self.checks = checks
        self.draining = False

    def close(self, underway: Underway, outcome: Outcome) -> None:
        """Records the exchange, counts it, and settles what it holds of limits. Once: a second time does nothing."""
        exchange = underway.keep(outcome)
        if exchange is not None:
            self.telemetry.ended(exchange)
        ticket = underway.ticket
        if ticket is None or ticket.settled:
            return
        if exchange is None or not underway.attempts:  # no engine was asked
            self.limits.cancel(ticket)
        else:
            self.limits.settle(ticket, spent(exchange))


async def serve(
    gateway: Gateway,
    dialect: Dialect,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    underway: Underway,
    out: Out,
    admit: Callable[[], Awaitable[Caller]],
) -> None:
    """Answers one request. Raises a NarthexError while nothing has been sent; after that the error is told in the stream.

    `admit` asks once more who asks, for a request that has waited: its key may be good no longer.
    """
    assert underway.caller is not None
    key = headers.get(HEADER)
    if key is not None:
        begun = await gateway.idempotency.begin(key, headers, underway.caller, underway.route, raw, underway.id)
        underway.claim = None if isinstance(begun, Answer) else begun
        underway.caller = await admit()
        if isinstance(begun, Answer):
            underway.replays(begun)
            gateway.telemetry.replayed(underway.route)
            await out.replay(begun)
            return
    ask = underway.ask = dialect.open(raw)
    said = ask.body
    if ask.previous is not None or ask.refers:
        said = Body(ask.body)
        await gateway.conversations.resume(ask, underway.caller)
    underway.episode_id = _episode(ask, headers, underway)
    underway.tags = tags_of(ask, headers)
    try:
        gateway.spool.admit()
    except SpoolFull as full:
        raise Unavailable(str(full), retry_after_s=5) from None
    planned = underway.plan = plan(gateway.live.directory, underway.caller, ask.model, underway.id)
    constraint = await gateway.checks.constraint(ask, underway.caller.key_id)
    need = needed(ask, planned, gateway.settings.limits_output_tokens, underway.received_us / 1e6)
    underway.ticket = await gateway.limits.reserve(underway.id, underway.caller, planned.name, underway.tags, need)
    recorded = gateway.spool.open(underway.id, underway.caller.content)
    recorded.ask(raw)
    entry = underway.entry = recorded if underway.claim is None else underway.claim.over(recorded)
    stamp = Stamp(underway.id, underway.episode_id, ask.model, underway.received_us // 1_000_000, ask.wants_usage, said)
    betas = headers.get(b"anthropic-beta", b"")
    asked = Asked(ask, raw, dialect, gateway.media, _may_drop(headers), betas, constraint, underway.id, _repairs(headers), headers)
    answer = await gateway.attempts.serve(asked, planned, stamp, underway)

    underway.status = 200
    if isinstance(answer, Streaming):
        await _relay(gateway, dialect, answer, raw, underway, out)
    else:
        await underway.let_go()
        underway.usage, underway.finish_reason = answer.usage, answer.finish_reason
        underway.written_tokens = text_tokens(len(answer.raw))
        entry.reply(answer.raw)
        await _keep(gateway, underway)
        if ask.stores:
            await gateway.conversations.keep(underway.id, underway.caller, raw, answer.raw)
        await out.whole(answer.raw)


async def _relay(gateway: Gateway, dialect: Dialect, answer: Streaming, raw: bytes, underway: Underway, out: Out) -> None:
    """Sends each block on as it comes. The last frames wait until the exchange is kept."""
    editor, entry = answer.editor, underway.entry
    underway.editor = editor
    assert entry is not None
    entry.reply(answer.first)
    await out.begin(answer.first)
    try:
        if not editor.done and editor.failure is None:
            async for block in answer.blocks:
                data = editor.feed(block)
                if data:
                    entry.reply(data)
                    await out.more(data)
                if editor.done or editor.failure is not None:
                    break
        last = editor.end()
    except UpstreamError as error:
        gateway.attempts.hide(error, underway)
        underway.failed(200, type(error).__name__, error.message)
        last = dialect.write_error_frame(error)
    except httpx.TransportError as fault:
        error = gateway.attempts.told(fault, underway)
        underway.failed(200, type(error).__name__, error.message)
        last = dialect.write_error_frame(error)
    underway.usage, underway.finish_reason = editor.usage, editor.finish_reason
    entry.reply(last)
    await _keep(gateway, underway)
    if underway.ask is not None and underway.ask.stores and underway.caller is not None:
        await gateway.conversations.keep(underway.id, underway.caller, raw, last)
    await out.end(last)
    # Whatever is wrong from here on: the caller has its answer whole, and a word more would be taken for the next one's.
    with contextlib.suppress(TimeoutError, httpx.TransportError, UpstreamError):
        async with asyncio.timeout(_END_OF_STREAM_S):
            async for _ in answer.blocks:
                pass


async def _keep(gateway: Gateway, underway: Underway) -> None:
    """Promise 2: what a caller has in full is recorded. So this comes before the last byte."""
    claim = underway.claim
    if claim is not None:
        await claim.confirm()
    gateway.close(underway, "answered")
    await gateway.spool.kept()
    if claim is not None:
        await claim.settle()


def _episode(ask: Ask, headers: Mapping[bytes, bytes], underway: Underway) -> str:
    said = headers.get(b"x-narthex-episode-id")
    in_header = None if said is None else said.decode("latin-1")
    if in_header is not None and ask.episode_id and in_header.lower() != ask.episode_id.lower():
        raise Malformed("The body's `episode_id` and the header x-narthex-episode-id name two episodes.", param="episode_id")
    episode_id = ask.episode_id or in_header
    if episode_id is None:
        return uuid7.mint(underway.received_us)
    return check_episode(episode_id, time.time() * 1000)


def tags_of(ask: Ask | None, headers: Mapping[bytes, bytes]) -> Mapping[str, str]:
    """The header's tags, else the body's. Bounded: they are looked up, counted and stored."""
    said = headers.get(b"x-narthex-tags")
    if said is None:
        tags: Mapping[str, str] = {} if ask is None else ask.tags
    else:
        try:
            tags = msgspec.json.decode(said, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise Malformed(f"The header x-narthex-tags must be a JSON object of strings: {fault}.") from None
    if tags and (len(tags) > _MOST_TAGS or any(len(key) > _LONGEST_TAG or len(value) > _LONGEST_TAG for key, value in tags.items())):
        raise Malformed(f"At most {_MOST_TAGS} tags (or metadata) of at most {_LONGEST_TAG} characters each can be kept.", param="metadata")
    return tags


def _may_drop(headers: Mapping[bytes, bytes]) -> Callable[[str], bool]:
    """What the caller lets go where a target cannot honour it: `x-narthex-drop: all`, or names of fields."""
    said = headers.get(b"x-narthex-drop")
    if said is None:
        return _nothing
    named = {name.strip() for name in said.decode("latin-1").split(",")}
    return lambda field: "all" in named or field in named


def _repairs(headers: Mapping[bytes, bytes]) -> int:
    """How often the caller lets an answer that does not obey be asked for again."""
    said = headers.get(b"x-narthex-guided-retries")
    if said is None:
        return 0
    if said not in (b"0", b"1", b"2", b"3"):
        raise Malformed("The header x-narthex-guided-retries may be 0, 1, 2 or 3.")
    return int(said)


def _nothing(field: str) -> bool:
    return False
