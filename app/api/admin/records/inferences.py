"""Recorded inferences: /admin/v1/inferences and /admin/v1/inferences/{id}."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from app.api.admin.records.inference_filters import InferenceFilters, parse_id, read_filters
from app.api.admin.records.recorded_attempts import RecordedAttempt, RecordedCharge, UsageDetails
from app.api.rest.command import Command
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.domain.exchange import OriginKind, Outcome
from app.settings import Settings
from app.store.access.roles import Permission
from app.store.formats.csv_lines import csv_cell, csv_lines
from app.store.formats.parquet_lines import MISSING, PARQUET_MEDIA_TYPE, ParquetFile, can_write
from app.store.messages.previews import MAX_CHARACTERS, MAX_ROWS, read_previews
from app.store.postgres.paging import Limit
from app.store.records import inference_queries
from app.store.records import inference_ranking as ranking
from app.store.records.audit_export import EXPORT_MEDIA_TYPES, ExportFormat
from providers.canonical.errors import InvalidRequest

TIMEOUT_S = 30.0  # enough for a list without filters


class Inference(Struct, frozen=True, kw_only=True):
    """A recorded request that reached a plan; the page at /docs describes each field. `team`: the name of the team `team_id`.

    `endpoint` and `attempts` are null also for those who do not read the configuration, as roles within a team.
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
    attempts: Sequence[RecordedAttempt] | None
    dropped: Sequence[str] | None
    tags: dict[str, Any] | None
    end_user: str | None
    snapshot: str
    charged_input: int | None
    charged_output: int | None
    cost_microusd: int | None
    structured_output: str | None
    usage_details: UsageDetails | None
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
    charges: Sequence[RecordedCharge] | None
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
    key: Annotated[str, Meta(description="The public part of the key, by which lists are filtered; null: the key was removed.")] | None
    attempts_count: Annotated[int, Meta(description="How many attempts there were, also where `attempts` is null.")]


Preview = Annotated[
    str | None,
    Meta(description=f"The first {MAX_CHARACTERS} characters of the newest text of a user; null: not kept, long, no chat, or hidden."),
]
ListedInference: Any = defstruct(
    "ListedInference",
    [(name, kind | UnsetType, UNSET) for name, kind in {**get_type_hints(Inference, include_extras=True), "preview": Preview}.items()],
    frozen=True,
    kw_only=True,
    namespace={"__doc__": "A recorded request as the list has it: with all fields, or with those that were asked for in `fields`."},
)


InferencePage: Any = defstruct(
    "InferencePage",
    [
        ("data", Sequence[ListedInference]),
        ("next", Annotated[str | None, Meta(description="Give it as `before` for the next page; null: this is the last one.")]),
        (
            "searched_to",
            Annotated[
                str | None,
                Meta(description="The search for a `text` took too long for one page: until when was searched; `next` goes on from there."),
            ],
        ),
    ],
    frozen=True,
    namespace={"__doc__": "A page of inferences."},
)


class InferenceQuery(InferenceFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 50
    before: Annotated[str, Meta(max_length=4096, description="`next` of the page before.")] | None = None
    sort: Annotated[
        Literal["-received_at", "-duration_us", "-cost_microusd"],
        Meta(description="The newest first, or those that took longest or cost most, which takes a `since` of at most 93 days ago."),
    ] = "-received_at"
    preview: Annotated[bool, Meta(description=f"Also the `preview` of each, on pages of at most {MAX_ROWS}.")] = False
    fields: (
        Annotated[
            str, Meta(max_length=2048, description="The fields that each row shall have, separated by commas; left out: all of them.")
        ]
        | None
    ) = None


class ExportQuery(InferenceFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[
        ExportFormat | Literal["parquet"],
        Meta(description="An inference a line as JSON, CSV for spreadsheets, or Parquet, which takes the extra narthex[parquet]."),
    ] = "jsonl"


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


def check_preview(limit: int, *, preview: bool) -> None:
    """Raises InvalidRequest for a page that is too long to have previews."""
    if preview and limit > MAX_ROWS:
        raise InvalidRequest(f"With `preview`, `limit` may be {MAX_ROWS} at most.", param="limit")


def _parse_fields(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = [name for name in names if name not in Inference.__struct_fields__]
    if unknown:
        known = ", ".join(Inference.__struct_fields__)
        raise InvalidRequest(f"There is no field {unknown[0]!r:.60}. `fields` may be, separated by commas: {known}.", param="fields")
    return names


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def list_inferences(call: Call[InferenceQuery, NoBody]) -> Answer:
        query, filters = call.query, read_filters(call)
        check_preview(query.limit, preview=query.preview)
        names = None if query.fields is None else _parse_fields(query.fields)
        if query.sort == "-received_at":
            before = query.before and parse_id(query.before, "before")
            page = await inference_queries.page_inferences(
                call.connection, filters, keep_hours_days=settings.keep_hours_days, before=before, limit=query.limit
            )
        else:
            measure, after = query.sort.removeprefix("-"), query.before and ranking.read_position(query.before)
            page = await ranking.page_most(
                call.connection, filters, measure, keep_hours_days=settings.keep_hours_days, after=after or None, limit=query.limit
            )
        rows = [shown_fields(call, row) for row in page.rows]
        previews: Mapping[str, str] = {}
        if query.preview:
            visible = {row["id"]: row["route"] for row in rows if is_visible(call, row, "records:content")}
            previews = await read_previews(call.connection, visible)
        with_preview = [{"preview": previews.get(row["id"])} if query.preview else {} for row in rows]
        if names is not None:
            rows = [{name: row[name] for name in names} for row in rows]
        rows = [{**row, **more} for row, more in zip(rows, with_preview, strict=True)]
        searched_to = page.searched_to and page.searched_to.isoformat(timespec="milliseconds")
        return Answer(InferencePage([ListedInference(**row) for row in rows], page.next, searched_to))

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
            description="A filter given several times takes any of its values. Rows have only the `fields` that you ask for.",
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
    ]
