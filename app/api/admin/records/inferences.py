"""Recorded inferences: /admin/v1/inferences and /admin/v1/inferences/{id}."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import UTC
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.rest.command import Command
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain import uuid7
from app.domain.exchange import OriginKind, Outcome
from app.settings import Settings
from app.store.access.roles import Permission
from app.store.formats.csv_lines import csv_cell, csv_lines
from app.store.formats.parquet_lines import MISSING, PARQUET_MEDIA_TYPE, ParquetFile, can_write
from app.store.keys.key_format import parse_prefix
from app.store.postgres.paging import Limit
from app.store.records import inference_queries
from app.store.records.audit_export import EXPORT_MEDIA_TYPES, ExportFormat
from app.store.records.episode_lookup import check_episode
from app.store.records.inference_filter import InferenceFilter
from app.store.records.search_words import MAX_SEARCH_CHARACTERS, read_search
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownRecord

TIMEOUT_S = 30.0  # enough for a list without filters
TeamId = Annotated[str, Meta(description="The UUID of a team, as `team_id` of its records.")]


class Inference(Struct, frozen=True, kw_only=True):
    """A recorded request that reached a plan; the page at /docs describes each field. `team`: the name of the team `team_id`.

    `endpoint`, `attempts`: null also for those who do not read the configuration, as roles within a team.
    """

    id: str
    episode_id: str
    received_at: str
    team_id: str
    team: str | None
    key_id: str
    route: str
    model: str
    function: str | None
    variant: str | None
    served_provider: str | None
    served_model: str | None
    endpoint: str | None
    streamed: bool
    status: int
    outcome: Outcome
    finish_reason: str | None
    error: str | None
    message: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    duration_us: int
    first_token_us: int | None
    attempts: Sequence[dict[str, Any]] | None
    dropped: Sequence[str] | None
    tags: dict[str, Any] | None
    end_user: str | None
    snapshot: str
    charged_input: int | None
    charged_output: int | None
    cost_microusd: int | None
    structured_output: str | None
    usage_details: dict[str, Any] | None
    charge_basis: str | None
    reported_model: str | None
    emulated: Sequence[str] | None
    trace_id: str | None
    parent_span_id: str | None
    sampled: bool | None
    request_id: str | None
    price: str | None
    host_cost_microusd: int | None
    served_us: int | None
    charges: Sequence[dict[str, Any]] | None
    erased_at: str | None
    episode_name: str | None
    experiment: str | None
    experiment_version: int | None
    arm_probability: float | None
    not_enrolled: str | None
    experiment_unit: str | None
    episode_kind: str | None
    served_variant: str | None
    origin: OriginKind | None
    original_id: str | None
    replay_id: str | None
    shadow: str | None
    content_team_id: str | None
    content_team: str | None
    shadow_first_turn: bool | None
    shadow_same: bool | None


class Content(Struct, frozen=True):
    """Request and response as text. `policy`: what is kept of them."""

    policy: str
    request: str | None
    response: str | None


class InferenceWithContent(Inference, frozen=True, kw_only=True):
    """An inference with its content, which is null if it is no longer kept or if it is hidden.

    `content_hidden` means that your roles do not show what was written.
    """

    content: Content | None
    content_hidden: bool = False


class InferencePage(Struct, frozen=True):
    """A page of inferences. Send `next` as `before` to get the next page; null means that this is the last one.

    `searched_to` is set if the search for a `text` took too long for one page: it is the time from which on
    the text was searched for, and `next` goes on from there.
    """

    data: Sequence[Inference]
    next: str | None
    searched_to: str | None


class InferenceFilters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an inference must meet."""

    model: Annotated[str, Meta(description="Only of requests for this model.")] | None = None
    team: Annotated[str, Meta(description="Only of the team with this name.")] | None = None
    team_id: TeamId | None = None
    outcome: Outcome | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    key: Annotated[str, Meta(description="Only of the key with this public part.")] | None = None
    episode_id: Annotated[str, Meta(description="Only of this episode: its UUID, or the text that its caller names it by.")] | None = None
    end_user: Annotated[str, Meta(max_length=1024, description="Only of this end user.")] | None = None
    tag: Annotated[str, Meta(max_length=2048, description="NAME=VALUE: only with this tag.")] | None = None
    provider: Annotated[str, Meta(max_length=512, description="Only served by this provider.")] | None = None
    served_model: Annotated[str, Meta(max_length=512, description="Only served by this model of a provider.")] | None = None
    route: Annotated[str, Meta(max_length=512, description="Only of this route, such as openai_chat.")] | None = None
    function: Annotated[str, Meta(max_length=512, description="Only of requests for this function.")] | None = None
    variant: Annotated[str, Meta(max_length=512, description="Only assigned to this variant or arm.")] | None = None
    experiment: Annotated[str, Meta(max_length=512, description="Only assigned by this experiment.")] | None = None
    shadow: Annotated[str, Meta(max_length=512, description="Only of the shadow of this function or model.")] | None = None
    status: Annotated[str, Meta(pattern="^([1-5][0-9]{2}|[1-5]xx)$", description="Such as 200, or 5xx.")] | None = None
    error: Annotated[str, Meta(max_length=200, description="Only with this error.")] | None = None
    min_cost_microusd: Annotated[int, Meta(ge=0, le=2**53, description="Only what cost at least this.")] | None = None
    min_duration_us: Annotated[int, Meta(ge=0, le=2**53, description="Only what took at least this long.")] | None = None
    trace_id: Annotated[str, Meta(pattern="^[0-9a-fA-F]{32}$", description="Only of this trace.")] | None = None
    request_id: Annotated[str, Meta(max_length=128, description="Only with this `x-request-id`.")] | None = None
    origin: Annotated[
        OriginKind | Literal["caller"] | None,
        Meta(description="Only requests of callers, or only those that the gateway made itself: shadows, replays, judges."),
    ] = None
    original_id: Annotated[str, Meta(description="Only what the gateway made of this inference.")] | None = None
    text: (
        Annotated[
            str,
            Meta(
                max_length=MAX_SEARCH_CHARACTERS,
                description='Only where this was written: words, "phrases", `or`, and `-` before what must not be there.',
            ),
        ]
        | None
    ) = None


class InferenceQuery(InferenceFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 50
    before: Annotated[str, Meta(description="`next` of the page before.")] | None = None


class ExportQuery(InferenceFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[
        ExportFormat | Literal["parquet"],
        Meta(description="An inference a line as JSON, CSV for spreadsheets, or Parquet, which takes the extra narthex[parquet]."),
    ] = "jsonl"


def read_filters(call: Call[Any, Any], given: InferenceFilters | None = None, permission: Permission | None = None) -> InferenceFilter:
    """`given` None: those of the query. `permission`: which says of which teams; None: the operation's. Raises InvalidRequest."""
    query: InferenceFilters = call.query if given is None else given
    if query.text is None:
        return to_filter(query, call.visible_teams(permission))
    searched = call.visible_teams("records:content")
    found = to_filter(query, searched)
    if searched == frozenset():
        raise NotAllowed("Your roles do not show what was written, so you cannot search it: that takes 'records:content'.", param="text")
    return found


def to_filter(query: InferenceFilters, only_teams: Collection[str] | None) -> InferenceFilter:
    """`only_teams`: names; None: all. Raises InvalidRequest."""
    key = query.key and parse_prefix(query.key)
    if query.key is not None and key is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    tag = query.tag and query.tag.partition("=")
    if tag and not (tag[0] and tag[1]):
        raise InvalidRequest("`tag` must be NAME=VALUE.", param="tag")
    is_class = query.status is not None and query.status.endswith("xx")
    return InferenceFilter(
        model=query.model,
        team_id=query.team_id and parse_id(query.team_id, "team_id"),
        outcome=query.outcome,
        since_ms=_to_ms(query.since, "since"),
        until_ms=_to_ms(query.until, "until"),
        team=query.team,
        only_teams=only_teams,
        key=key,
        episode=None if query.episode_id is None else check_episode(query.episode_id),
        end_user=query.end_user,
        tag=(tag[0], tag[2]) if tag else None,
        provider=query.provider,
        served_model=query.served_model,
        route=query.route,
        status=None if query.status is None or is_class else int(query.status),
        status_class=int(query.status[0]) if query.status is not None and is_class else None,
        error=query.error,
        function=query.function,
        variant=query.variant,
        experiment=query.experiment,
        shadow=query.shadow,
        min_cost_microusd=query.min_cost_microusd,
        min_duration_us=query.min_duration_us,
        trace_id=query.trace_id and query.trace_id.lower(),
        request_id=query.request_id,
        origin=query.origin,
        original_id=query.original_id and parse_id(query.original_id, "original_id"),
        text=None if query.text is None else read_search(query.text),
    )


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    id = parse_id(call.path["id"], "id")
    row = await inference_queries.find_inference(call.connection, id)
    if row is None or not is_visible(call, row):
        raise UnknownRecord(
            f"There is no inference {id}. A new one appears here a moment after its response; one that was refused before it reached a"
            " model is none, but may be among /admin/v1/refusals."
        )
    hidden = not is_visible(call, row, "records:content")
    read = None if hidden else await inference_queries.read_content(call.connection, id)
    fields: dict[str, Any] = {**shown_fields(call, row), "content": read and Content(**read), "content_hidden": hidden}
    # In a thread: a request and its response may be many megabytes.
    return Answer(await asyncio.to_thread(msgspec.json.encode, InferenceWithContent(**fields)))


def is_visible(call: Call[Any, Any], row: Mapping[str, Any], permission: Permission | None = None) -> bool:
    """Returns whether the principal may see an inference.

    A shadow is seen by those who may see both the team that pays and the team whose request it repeats.
    """
    teams = [row["team"]] if row["content_team_id"] is None else [row["team"], row["content_team"]]
    return all(call.is_visible(team, permission) for team in teams)


def page_of(call: Call[Any, Any], rows: Sequence[dict[str, Any]], limit: int) -> tuple[list[Inference], str | None]:
    shown = [Inference(**shown_fields(call, row)) for row in rows[:limit]]
    return shown, shown[-1].id if len(rows) > limit else None


def shown_fields(call: Call[Any, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Addresses of endpoints, and what hosts say, are of the configuration that teams share."""
    return row if call.principal.may("config:read") else {**row, "endpoint": None, "attempts": None}


def _export_lines(rows: Sequence[dict[str, Any]], format: ExportFormat, *, with_titles: bool = False) -> bytes:
    inferences = [Inference(**row) for row in rows]
    if format == "jsonl":
        return b"".join(msgspec.json.encode(each) + b"\n" for each in inferences)
    names = Inference.__struct_fields__
    return csv_lines([*([names] if with_titles else []), *([csv_cell(getattr(each, name)) for name in names] for each in inferences)])


def parse_id(text: str, name: str) -> str:
    if not uuid7.is_uuid7(text):
        raise InvalidRequest(f"`{name}` must be a UUIDv7, not {text!r:.60}.", param=name)
    return text.lower()


def _to_ms(text: str | None, name: str) -> int | None:
    """Unix time in milliseconds."""
    return None if text is None else int(parse_time(text, name).astimezone(UTC).timestamp() * 1000)


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def list_inferences(call: Call[InferenceQuery, NoBody]) -> Answer:
        query = call.query
        before = query.before and parse_id(query.before, "before")
        page = await inference_queries.page_inferences(
            call.connection, read_filters(call), keep_hours_days=settings.keep_hours_days, before=before, limit=query.limit
        )
        shown = [Inference(**shown_fields(call, row)) for row in page.rows]
        return Answer(InferencePage(shown, page.next, page.searched_to and page.searched_to.isoformat(timespec="milliseconds")))

    async def export_inferences(call: Call[ExportQuery, NoBody]) -> Answer:
        format = call.query.format
        if format == "parquet" and not can_write():
            raise InvalidRequest(MISSING, param="format")
        pages = inference_queries.walk_inferences(call.read_transaction, read_filters(call), settings.keep_hours_days)
        first = await anext(pages, list[dict[str, Any]]())  # before the response begins, so that an outage is a 503

        async def parquet() -> AsyncGenerator[bytes]:
            file = await asyncio.to_thread(ParquetFile)
            yield await asyncio.to_thread(file.write, [shown_fields(call, row) for row in first])
            async for rows in pages:
                yield await asyncio.to_thread(file.write, [shown_fields(call, row) for row in rows])
            yield await asyncio.to_thread(file.finish)

        filename = f"narthex-inferences.{format}"
        if format == "parquet":
            return export_answer(call, parquet(), filename, PARQUET_MEDIA_TYPE)

        async def lines() -> AsyncGenerator[bytes]:
            yield _export_lines([], format, with_titles=True) + _export_lines([shown_fields(call, row) for row in first], format)
            async for rows in pages:
                yield _export_lines([shown_fields(call, row) for row in rows], format)

        return export_answer(call, lines(), filename, EXPORT_MEDIA_TYPES[format])

    tag = "Records"
    return [
        Operation(
            method="GET",
            path="/inferences",
            id="list_inferences",
            tag=tag,
            summary="List recorded inferences, newest first",
            permission="records:read",
            scope="team",
            query=InferenceQuery,
            response=InferencePage,
            timeout_s=TIMEOUT_S,
            commands=(Command(name="inferences"),),
            handler=list_inferences,
        ),
        Operation(
            method="GET",
            path="/inferences/export",
            id="export_inferences",
            tag=tag,
            summary="Export recorded inferences",
            description="All that match, newest first, of any number, without what was written. An export that breaks off is not complete:"
            " repeat it.",
            permission="records:read",
            scope="team",
            access="memory",
            query=ExportQuery,
            response=str,
            response_media_type="application/jsonl",
            other_media_types=("text/csv", PARQUET_MEDIA_TYPE),
            timeout_s=TIMEOUT_S,
            commands=(Command(name="inferences"),),
            handler=export_inferences,
        ),
        Operation(
            method="GET",
            path="/inferences/{id}",
            id="get_inference",
            tag=tag,
            summary="Show an inference, with what was written if your roles include it",
            permission="records:read",
            scope="team",
            response=InferenceWithContent,
            errors={404: "There is no such inference, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="inferences"),),
            handler=_show,
        ),
    ]
