"""One inference with what was written: /admin/v1/inferences/{id}, also as messages, and its media."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.records.explain import explain_inference
from app.api.admin.records.inference_filters import parse_id
from app.api.admin.records.inferences import TIMEOUT_S, Inference, is_visible, shown_fields
from app.api.admin.records.media_answer import SHOWN, decode_media, media_answer
from app.api.admin.records.reading_places import ReadingPlaces
from app.api.admin.records.reasons import Reason
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.errors import InvalidKeyField
from app.process.thread_steps import run_in_steps
from app.settings import Settings
from app.store.messages.read_messages import Messages, PackedExchange, read_media, read_messages
from app.store.records import inference_queries
from app.store.records.episode_timeline import TimelineAttempt, timeline_attempts
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import make_query
from providers.canonical.errors import UnknownRecord

_MAX_NUMBER_DIGITS = 6
_LEAST_USUAL = 20  # requests that a median is of


class Content(Struct, frozen=True):
    """Request and response as text. `policy`: what is kept of them."""

    policy: str
    request: str | None
    response: str | None


class InferenceWithContent(Inference, frozen=True, kw_only=True):
    """An inference with its content, which is null if it is no longer kept or if it is hidden."""

    content: Content | None
    content_hidden: Annotated[bool, Meta(description="Your roles do not show what was written.")]
    messages: Annotated[Messages | None, Meta(description="What was written, as messages; null: not asked for, not kept, or hidden.")]
    made_attempts: Annotated[Sequence[TimelineAttempt], Meta(description="Every attempt, in the order in which they began.")]
    why: Annotated[Sequence[Reason], Meta(description="Why it was slow or quick, dear or cheap, sent there, and why it failed if it did.")]


class DetailQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    content: Annotated[
        Literal["raw", "messages", "both", "none"],
        Meta(description="What was written: the bytes as text, messages in no API's format, both, or only by which policy it is kept."),
    ] = "raw"
    max_characters: Annotated[int, Meta(ge=1, le=1_000_000, description="Most characters of each part of a message.")] = 20_000


class FoundInference(NamedTuple):
    row: dict[str, Any]
    hidden: bool  # whether its reader may not see what was written
    teams: frozenset[str] | None  # with whose requests it may be compared; None: with all


FindInference = Callable[[Call[DetailQuery, NoBody], AsyncConnection], Awaitable[FoundInference]]


class InferenceDetails:
    """Reads what is stored, releases the connection, and then makes messages of it, which may take a second."""

    def __init__(self, settings: Settings, find: FindInference) -> None:
        self._settings = settings
        self._find = find
        self._places = ReadingPlaces()

    async def show(self, call: Call[DetailQuery, NoBody]) -> Answer:
        async with self._places.place() if call.query.content in ("messages", "both") else nullcontext():
            return await _show(call, self._settings, self._find)

    async def show_media(self, call: Call[NoQuery, NoBody]) -> Answer:
        async with self._places.place():
            return await _show_media(call)


async def find_shown(call: Call[Any, Any], connection: AsyncConnection) -> dict[str, Any]:
    """Finds the inference of the path. Raises UnknownRecord if there is none that the principal may see."""
    id = parse_id(call.path["id"], "id")
    row = await inference_queries.find_inference(connection, id)
    if row is None or not is_visible(call, row):
        raise UnknownRecord(
            f"There is no inference {id}. A new one appears here a moment after its response; one that was refused before it reached a"
            " model is none, but may be among /admin/v1/refusals."
        )
    return row


async def _find_visible(call: Call[DetailQuery, NoBody], connection: AsyncConnection) -> FoundInference:
    row = await find_shown(call, connection)
    return FoundInference(row, not is_visible(call, row, "records:content"), call.visible_teams())


async def _show(call: Call[DetailQuery, NoBody], settings: Settings, find: FindInference) -> Answer:
    wanted = call.query.content
    async with call.read_transaction() as connection:
        row, hidden, teams = await find(call, connection)
        packed = None if hidden else await inference_queries.read_packed_content(connection, row["id"])
        usual_us = await _usual_duration(connection, row, settings, teams)
    content = messages = None
    if packed is not None:
        unpack = inference_queries.unpack_text
        texts = (await unpack(packed.request), await unpack(packed.response)) if wanted in ("raw", "both") else (None, None)
        content = Content(packed.policy, *texts)
        if wanted in ("messages", "both"):
            exchange = PackedExchange(row["route"], row["streamed"], packed.request, packed.response)
            messages = await run_in_steps(lambda: read_messages(exchange, call.query.max_characters))
    shown = shown_fields(call, row)
    attempts = timeline_attempts(row, () if call.principal.may("config:read") else ("endpoint", "code"))
    fields: dict[str, Any] = {
        **shown,
        "content": content,
        "content_hidden": hidden,
        "messages": messages,
        "made_attempts": attempts,
        "why": explain_inference(shown, attempts, usual_us),
    }
    # In a thread: a request and its response may be many megabytes.
    return Answer(await asyncio.to_thread(msgspec.json.encode, InferenceWithContent(**fields)))


async def _usual_duration(
    connection: AsyncConnection, row: Mapping[str, Any], settings: Settings, only_teams: frozenset[str] | None
) -> int | None:
    """Returns the median duration of the model's requests of the day before, of teams that the reader sees; None: there were few."""
    received_at = datetime.fromisoformat(row["received_at"])
    try:
        query = make_query(
            since=received_at - timedelta(days=1),
            until=received_at + timedelta(minutes=1),
            now=datetime.now(UTC),
            keep_minutes_days=settings.keep_minutes_days,
            keep_hours_days=settings.keep_hours_days,
            filters={"model": row["model"]},
            quantiles=True,
        )
        found = await read_analytics(connection, query, only_teams=only_teams)
    except InvalidKeyField:  # no sums know the model
        return None
    [sums] = found.data or [None]
    return None if sums is None or sums.duration is None or sums.requests < _LEAST_USUAL else sums.duration.p50


async def _show_media(call: Call[NoQuery, NoBody]) -> Answer:
    number = call.path["number"]
    async with call.read_transaction() as connection:
        row = await find_shown(call, connection)
        packed = await inference_queries.read_packed_content(connection, row["id"])
    if packed is not None and number.isdecimal() and len(number) < _MAX_NUMBER_DIGITS:
        exchange = PackedExchange(row["route"], row["streamed"], packed.request, packed.response)
        media = await run_in_steps(lambda: read_media(exchange, int(number)))
        if media is not None:
            return media_answer(await asyncio.to_thread(decode_media, media), media.media_type)
    raise UnknownRecord(f"There are no media {number:.20} in this inference, or they are no longer kept.")


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    details = InferenceDetails(settings, _find_visible)
    return [
        Operation(
            method="GET",
            path="/inferences/{id}",
            id="get_inference",
            tag="Records",
            summary="Show an inference, with what was written if your roles include it",
            permission="records:read",
            scope="team",
            access="memory",
            description="With `content=messages`, as messages in no API's format, read from whichever API the caller used: texts,"
            " reasoning, calls of tools and their results, media, the tools that were offered and the form that was asked for. `why`"
            " explains it in sentences.",
            query=DetailQuery,
            response=InferenceWithContent,
            errors={404: "There is no such inference, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(
                Command(
                    name="inferences show",
                    summary="Show the request ID: why it went as it did, its attempts, and what was written.",
                    help="Messages are shown whichever API its caller used, and only if they are kept.",
                    examples=("inferences show 019a2c3d-0000-7000-8000-000000000000",),
                    options={"content": Option(default="messages")},
                    render="messages.inference",
                ),
            ),
            handler=details.show,
        ),
        Operation(
            method="GET",
            path="/inferences/{id}/media/{number}",
            id="get_inference_media",
            tag="Records",
            summary="Read an image, document or sound of a request or response",
            description="By the `number` that messages give it. What browsers might run comes as a download.",
            permission="records:content",
            scope="team",
            access="memory",
            response=str,
            response_media_type="application/octet-stream",
            other_media_types=sorted(SHOWN),
            errors={404: "There is no such inference or no such media, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="records media"),),
            handler=details.show_media,
        ),
    ]
