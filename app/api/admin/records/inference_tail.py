"""Following new inferences: GET /admin/v1/inferences/tail, a stream of server-sent events."""

import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.admin.records.inference_filters import InferenceFilters, read_filters
from app.api.admin.records.inferences import TIMEOUT_S, Inference, is_visible, shown_fields
from app.api.admin.records.tail_readers import MAX_POLL_ROWS, MAX_WAITING_ROWS, Batch, InferenceTails, Tail, read_missed
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.store.records.inference_filter import check_names
from app.store.records.inference_tail import is_later, is_position
from providers.canonical.errors import CallerCredentialRequired, InvalidRequest, NarthexError, NotAllowed

_WAIT_S = 1.0  # so soon an ended session, or a shutdown, ends the stream
_HEARTBEAT_S = 15.0
_CHECK_ACCESS_S = 5.0
_EVENTS_AT_ONCE = 100  # encoded in one turn of the event loop
_MAX_DURATION_S = 86_400


class TailQuery(InferenceFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    duration_s: Annotated[int, Meta(ge=1, le=_MAX_DURATION_S, description="After so many seconds the stream ends.")] = 3600


class EndOfTail(msgspec.Struct, frozen=True):
    """The reason why the stream ends. A client goes on with the last event's id, unless access has ended."""

    reason: str
    message: str


_MESSAGES = {
    "too_slow": f"More than {MAX_WAITING_ROWS:,} inferences waited for this client. Follow fewer of them, or read faster.",
    "shutting_down": "The gateway is shutting down.",
    "duration": "The time of this stream is over.",
}


def operations(is_draining: Callable[[], bool]) -> list[Operation[Any, Any]]:
    tails = InferenceTails(is_draining)

    async def tail_inferences(call: Call[TailQuery, NoBody]) -> Answer:
        if call.query.text is not None:
            raise InvalidRequest("New inferences cannot be followed by their `text`: search for it.", param="text")
        # Before the response begins, so that what is wrong is a 400, and no room a 503.
        filters = read_filters(call)
        async with call.read_transaction() as connection:
            await check_names(connection, filters, is_empty=True)
        since = call.last_event_id or None
        if since is not None and not is_position(since):
            raise InvalidRequest("`Last-Event-ID` must be the id of an event of this stream.", param="last-event-id")
        tails.check_room(_follower(call))
        return Answer(_events(tails, call, since), headers={"cache-control": "no-store", "x-accel-buffering": "no"})

    return [
        Operation(
            method="GET",
            path="/inferences/tail",
            id="tail_inferences",
            tag="Records",
            summary="Follow new inferences as they are stored",
            description="Server-sent events: `inference` with a record, as the list has it; `missed` where more was stored than can be"
            " followed; `end` with `reason` and `message`. With `Last-Event-ID` the stream goes on where it ended.",
            permission="records:read",
            scope="team",
            access="memory",
            query=TailQuery,
            response=str,
            response_media_type="text/event-stream",
            timeout_s=TIMEOUT_S,
            commands=(Command(name="inferences"),),
            handler=tail_inferences,
        )
    ]


def _follower(call: Call[TailQuery, NoBody]) -> Hashable:
    return call.author.kind, call.author.id


async def _events(tails: InferenceTails, call: Call[TailQuery, NoBody], since: str | None) -> AsyncGenerator[bytes]:
    ends_s = time.monotonic() + call.query.duration_s
    try:
        async with tails.follow(_follower(call), read_filters(call), call.read_transaction) as tail:
            position = tail.position
            yield _id_line(since or position)
            if since is not None and is_later(position, since):
                async for batch in read_missed(call.read_transaction, tail.filters, since, position):
                    for events in _batch_events(call, batch):
                        yield events
            async for event in _follow(call, tail, ends_s):
                yield event
    except NarthexError as fault:  # the response has begun: it can only be said in an event
        yield _end("unavailable", fault.message)


async def _follow(call: Call[TailQuery, NoBody], tail: Tail, ends_s: float) -> AsyncGenerator[bytes]:
    heartbeat_s = check_s = time.monotonic()
    while True:
        batch = await tail.next(_WAIT_S)
        now_s = time.monotonic()
        if now_s - check_s >= _CHECK_ACCESS_S:
            check_s = now_s
            try:
                await call.renew_access()
            except (CallerCredentialRequired, NotAllowed) as fault:
                yield _end("access_ended", fault.message)
                return
            except NarthexError:  # it cannot be checked now
                check_s = now_s - _CHECK_ACCESS_S
            tail.filters = read_filters(call)
        if batch is not None:
            for events in _batch_events(call, batch):
                yield events
        elif now_s - heartbeat_s >= _HEARTBEAT_S:
            heartbeat_s = now_s
            yield b": heartbeat\n" + _id_line(tail.position)
        if tail.ended is not None:
            yield _end(tail.ended, _MESSAGES[tail.ended])
            return
        if now_s >= ends_s:
            yield _end("duration", _MESSAGES["duration"])
            return


def _batch_events(call: Call[TailQuery, NoBody], batch: Batch) -> Iterator[bytes]:
    """The position comes last: a client that loses the connection within a batch gets all of it again."""
    for start in range(0, len(batch.rows), _EVENTS_AT_ONCE):
        rows = [row for row in batch.rows[start : start + _EVENTS_AT_ONCE] if is_visible(call, row)]
        yield b"".join(_inference_event(call, row) for row in rows)
    if batch.missed:
        message = f"More than {MAX_POLL_ROWS:,} inferences were stored at once: some are missing here. The search has them."
        yield b"event: missed\ndata: " + msgspec.json.encode({"message": message}) + b"\n\n"
    yield _id_line(batch.position)


def _inference_event(call: Call[TailQuery, NoBody], row: dict[str, Any]) -> bytes:
    shown = Inference(**shown_fields(call, row))
    return b"event: inference\ndata: " + msgspec.json.encode(shown) + b"\n\n"


def _id_line(position: str) -> bytes:
    """An id without an event, which a client remembers."""
    return b"id: " + position.encode("ascii") + b"\n\n"


def _end(reason: str, message: str) -> bytes:
    return b"event: end\ndata: " + msgspec.json.encode(EndOfTail(reason, message)) + b"\n\n"
