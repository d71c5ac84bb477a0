"""Feedback of callers: /admin/v1/feedback, /admin/v1/feedback/export, /admin/v1/feedback/sums and /admin/v1/feedback/{id}."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from app.api.admin.records.inference_filters import parse_id
from app.api.rest.command import Command, Option
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain.experiments import MetricKind
from app.store.formats.csv_lines import csv_cell, csv_lines
from app.store.keys.key_format import parse_prefix
from app.store.postgres.paging import After, Limit, Page, read_cursor, write_cursor
from app.store.records.audit_export import EXPORT_MEDIA_TYPES, ExportFormat
from app.store.records.episode_lookup import check_episode
from app.store.records.feedback_queries import (
    FeedbackEvent,
    FeedbackEventAction,
    FeedbackFilter,
    list_feedback,
    read_history,
    walk_feedback,
)
from app.store.records.feedback_sums import MetricSum, sum_metric
from app.store.usage.named_filters import NamedFilters, check_named
from providers.canonical.errors import InvalidRequest, UnknownRecord

TIMEOUT_S = 30.0
_SCOPE = "feedback"

Text = Annotated[str, Meta(max_length=512)]


class FeedbackFilters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an event must meet."""

    metric: Annotated[Text, Meta(description="Only of this metric, which may no longer be configured.")] | None = None
    action: Annotated[FeedbackEventAction, Meta(description="Only what does this.")] | None = None
    kind: MetricKind | None = None
    team: Annotated[Text, Meta(description="Only of the team with this name.")] | None = None
    key: Annotated[Text, Meta(description="Only sent with the key with this public part.")] | None = None
    inference_id: Annotated[Text, Meta(description="Only on this inference.")] | None = None
    episode_id: Annotated[Text, Meta(description="Only on this episode: its UUID, or the text that its caller names it by.")] | None = None
    model: Annotated[Text, Meta(description="Only on inferences of this model.")] | None = None
    function: Annotated[Text, Meta(description="Only on inferences of this function.")] | None = None
    variant: Annotated[Text, Meta(description="Only on inferences of this variant.")] | None = None
    matched: Annotated[bool, Meta(description="Whether its inference or episode was found.")] | None = None
    current: Annotated[bool, Meta(description="Whether it counts: it is neither corrected, withdrawn nor replaced.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None


class FeedbackQuery(FeedbackFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 50
    after: After | None = None


class FeedbackExportQuery(FeedbackFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Annotated[ExportFormat, Meta(description="An event a line as JSON, or CSV for spreadsheets.")] = "jsonl"


class FeedbackSumsQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    metric: Annotated[Text, Meta(description="Of this metric, which may no longer be configured.")]
    days: Annotated[int, Meta(ge=1, le=400, description="Of feedback of so many days.")] = 30
    team: Annotated[Text, Meta(description="Only of the team with this name.")] | None = None


class FeedbackSums(Struct, frozen=True):
    """The sums of a metric's feedback by model, function and variant.

    The groups with the most feedback come first, and there are at most a thousand.
    """

    metric: str
    days: int
    data: Sequence[MetricSum]


class FeedbackHistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    team: Annotated[Text, Meta(description="Whose feedback; left out: of the team that created feedback with this id first.")] | None = None


class FeedbackHistory(Struct, frozen=True):
    """A feedback with all its events, the newest first. `other_teams`: those whose own feedback has the same id."""

    id: str
    team: str
    data: Sequence[FeedbackEvent]
    other_teams: Sequence[str]


async def _list(call: Call[FeedbackQuery, NoBody]) -> Answer:
    query = call.query
    before = None if query.after is None else parse_id(read_cursor(query.after, _SCOPE, [str])[0], "after")
    found = await list_feedback(call.connection, _read_filter(call), before=before, limit=query.limit + 1)
    shown = found[: query.limit]
    return Answer(Page(_shown(call, shown), write_cursor(_SCOPE, [shown[-1].id]) if len(found) > query.limit else None))


async def _export(call: Call[FeedbackExportQuery, NoBody]) -> Answer:
    format = call.query.format
    pages = walk_feedback(call.read_transaction, _read_filter(call))
    first = await anext(pages, list[FeedbackEvent]())  # before the response begins, so that an outage is a 503

    async def lines() -> AsyncGenerator[bytes]:
        yield (b"" if format == "jsonl" else csv_lines([FeedbackEvent.__struct_fields__])) + _lines(_shown(call, first), format)
        async for events in pages:
            yield _lines(_shown(call, events), format)

    return export_answer(call, lines(), f"narthex-feedback.{format}", EXPORT_MEDIA_TYPES[format])


async def _sum(call: Call[FeedbackSumsQuery, NoBody]) -> Answer:
    query, teams = call.query, call.visible_teams()
    if query.team is not None:
        teams = [query.team] if teams is None or query.team in teams else []
    sums = await sum_metric(call.connection, query.metric, query.days, teams)
    if not sums:
        await check_named(call.connection, NamedFilters(team=query.team), call.visible_teams())
    return Answer(FeedbackSums(query.metric, query.days, sums))


async def _show(call: Call[FeedbackHistoryQuery, NoBody]) -> Answer:
    id = parse_id(call.path["id"], "id")
    history = await read_history(call.connection, id, call.query.team, call.visible_teams())
    if history is None:
        of_team = "" if call.query.team is None else f" of team {call.query.team!r:.200}"
        raise UnknownRecord(f"There is no feedback {id}{of_team}. New feedback appears here a moment after it was sent.")
    return Answer(FeedbackHistory(id, history.team, _shown(call, history.events), history.other_teams))


def _read_filter(call: Call[Any, NoBody]) -> FeedbackFilter:
    """Raises InvalidRequest."""
    query: FeedbackFilters = call.query
    key = query.key and parse_prefix(query.key)
    if query.key is not None and key is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    return FeedbackFilter(
        metric=query.metric,
        action=query.action,
        kind=query.kind,
        team=query.team,
        key=key,
        inference_id=query.inference_id and parse_id(query.inference_id, "inference_id"),
        episode=None if query.episode_id is None else check_episode(query.episode_id),
        model=query.model,
        function=query.function,
        variant=query.variant,
        matched=query.matched,
        current=query.current,
        since=None if query.since is None else parse_time(query.since, "since"),
        until=None if query.until is None else parse_time(query.until, "until"),
        only_teams=call.visible_teams(),
    )


def _shown(call: Call[Any, Any], events: Sequence[FeedbackEvent]) -> list[FeedbackEvent]:
    """Comments and demonstrations only to those whose roles show what was written."""
    return [
        replace(each, value=None)
        if isinstance(each.value, str | dict | list) and not call.is_visible(each.team, "records:content")
        else each
        for each in events
    ]


def _lines(events: Sequence[FeedbackEvent], format: ExportFormat) -> bytes:
    if format == "jsonl":
        return b"".join(msgspec.json.encode(each) + b"\n" for each in events)
    return csv_lines([csv_cell(getattr(each, name)) for name in FeedbackEvent.__struct_fields__] for each in events)


def operations() -> list[Operation[Any, Any]]:
    tag = "Records"
    return [
        Operation(
            method="GET",
            path="/feedback",
            id="list_feedback",
            tag=tag,
            summary="List feedback of callers, newest first",
            description="An event each: what creates, corrects or withdraws feedback. `matched=false` has what is about no inference or"
            " episode that is recorded.",
            permission="records:read",
            scope="team",
            query=FeedbackQuery,
            response=Page[FeedbackEvent],
            timeout_s=TIMEOUT_S,
            commands=(
                Command(
                    help="An event each: what creates, corrects or withdraws feedback.",
                    examples=(
                        "feedback list --metric helpful --since 1d",
                        "feedback list --inference 019aa3f4-7492-7b70-8347-9564aeb44a24 --history",
                    ),
                    options={
                        "inference_id": Option(flag="--inference"),
                        "episode_id": Option(flag="--episode"),
                        "current": Option(
                            default="true",
                            constants={"--history": (None, "Also what was corrected, withdrawn or replaced, and so no longer counts.")},
                        ),
                    },
                    data="feedback",
                    render="records.feedback",
                ),
                Command(
                    name="feedback unmatched",
                    summary="List feedback whose inference or episode is not recorded.",
                    help="It may be so new that its inference has not ended; its inference may be in the spool of a machine that is off; or"
                    " there is none with that id in its team.",
                    examples=("feedback unmatched --team search",),
                    fixed={"matched": False},
                    data="feedback",
                    render="records.feedback",
                ),
                Command(
                    name="feedback conflicts",
                    summary="List feedback that was sent with the id of other feedback.",
                    help="It does not count: what was sent first under that id does, which `narthex feedback list` shows. Most of it is"
                    " refused when it is sent; this is what was accepted while the first was on its way to the database.",
                    examples=("feedback conflicts --team search",),
                    fixed={"action": "conflict"},
                    data="feedback",
                    render="records.feedback",
                ),
            ),
            handler=_list,
        ),
        Operation(
            method="GET",
            path="/feedback/export",
            id="export_feedback",
            tag=tag,
            summary="Export feedback of callers",
            description="All that matches, newest first. An export that breaks off is not complete: repeat it.",
            permission="records:read",
            scope="team",
            access="memory",
            query=FeedbackExportQuery,
            response=str,
            response_media_type="application/jsonl",
            other_media_types=("text/csv",),
            timeout_s=TIMEOUT_S,
            handler=_export,
        ),
        Operation(
            method="GET",
            path="/feedback/sums",
            id="sum_feedback",
            tag=tag,
            summary="Sum up the feedback of a metric",
            description="By model, function and variant, of what counts. Requests that do not count in their experiment are groups of their"
            " own, with the reason as `not_enrolled`.",
            permission="records:read",
            scope="team",
            query=FeedbackSumsQuery,
            response=FeedbackSums,
            timeout_s=TIMEOUT_S,
            commands=(Command(name="feedback sums"),),
            handler=_sum,
        ),
        Operation(
            method="GET",
            path="/feedback/{id}",
            id="get_feedback",
            tag=tag,
            summary="Show a feedback with its history",
            description="An id is of one team: what another team sends with the same id is its own, and shown with `team`.",
            permission="records:read",
            scope="team",
            query=FeedbackHistoryQuery,
            response=FeedbackHistory,
            errors={404: "There is no such feedback, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            handler=_show,
        ),
    ]
