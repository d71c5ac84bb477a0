"""An episode as a timeline: its inferences in order, each with its attempts and the tools that were called, and the sums of all."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from sqlalchemy import Row, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.exchange import Outcome
from app.store.messages.read_messages import Messages
from app.store.messages.turns import PackedTurns, Turn, read_packed_turns, read_turns
from app.store.postgres.tables import inferences
from app.store.records.inference_queries import episode_conditions, find_team_name, list_episode
from app.store.records.recorded_tool_calls import (
    CalledTool,
    PackedResponses,
    RecordedStream,
    read_packed_responses,
    read_tool_calls,
)

# first: of the request. retry: at the same target after a failure. fallback: at another one. hedge: beside one that still ran.
# resumption: it went on with a stream that broke.
AttemptReason = Literal["first", "retry", "fallback", "hedge", "resumption"]


class TimelineAttempt(Struct, frozen=True, kw_only=True):
    """Times since the inference was received. `started_us` of a single attempt is that by which it ended as the response did.

    `duration_us`: of the one that served until the end of its response. `error` null: it served.
    """

    provider: str
    served_model: str
    endpoint: str | None
    reason: AttemptReason
    started_us: int | None
    duration_us: int | None
    first_token_us: int | None
    status: int | None
    error: str | None
    code: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_microusd: int | None


class TimelineInference(Struct, frozen=True, kw_only=True):
    """An inference of an episode. `offset_us`: since the episode began. `tool_calls` null: the response is not kept, hidden, too long, or
    of no chat.

    `variant`: the assigned one. `not_enrolled`: why it does not count in the experiment; null: it does, or there is none.
    """

    id: str
    offset_us: int
    received_at: str
    duration_us: int
    first_token_us: int | None
    route: str
    model: str
    function: str | None
    variant: str | None
    served_variant: str | None
    experiment: str | None
    experiment_version: int | None
    not_enrolled: str | None
    streamed: bool
    status: int
    outcome: Outcome
    error: str | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_microusd: int | None
    attempts: Sequence[TimelineAttempt]
    tool_calls: Sequence[CalledTool] | None
    messages: Annotated[
        Messages | None,
        Meta(description="What is new in this turn, if requested: messages after the last response in the request, and the response."),
    ]


class EpisodeTotals(Struct, frozen=True, kw_only=True):
    """The sums of a whole episode.

    `failed` counts inferences that were not answered, and `unpriced` those whose cost is unknown.
    `duration_us` is the sum of all durations.
    """

    inferences: int
    failed: int
    attempts: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int
    unpriced: int
    duration_us: int


class EpisodeTimeline(Struct, frozen=True, kw_only=True):
    """A page of the inferences of an episode, and sums of all. `name`: the text that its caller names it by; null: none. `began_at`,
    `ended_at`: of the first request and the last response.

    `next`: give it as `after` for the next page; null: the last. `content_hidden`: your roles do not show what was written, and so no
    `tool_calls`.
    """

    id: str
    name: str | None
    team_id: str
    team: str | None
    began_at: str
    ended_at: str
    totals: EpisodeTotals
    inferences: Sequence[TimelineInference]
    next: str | None
    content_hidden: bool


class StoredTimeline(Struct, frozen=True):
    """A page of a timeline as it is stored: what was written is still packed."""

    totals: Row[Any]
    team: str | None
    rows: Sequence[Mapping[str, Any]]
    has_more: bool
    responses: PackedResponses
    turns: PackedTurns


async def read_stored_timeline(
    connection: AsyncConnection,
    team_id: str,
    episode_id: str,
    *,
    after: str | None,
    limit: int,
    with_tools: bool = True,
    with_messages: bool = False,
) -> StoredTimeline | None:
    """Reads what make_timeline() needs, which needs no connection; None: there is no such episode."""
    totals = (await connection.execute(_totals(team_id, episode_id))).one()
    if totals.began_at is None:
        return None
    rows = await list_episode(connection, team_id, episode_id, after=after, limit=limit + 1)
    page = rows[:limit]
    responses: PackedResponses = ()
    turns: PackedTurns = ()
    if with_tools:
        responses = await read_packed_responses(connection, [RecordedStream(row["id"], row["route"], row["streamed"]) for row in page])
    if with_messages:
        turns = await read_packed_turns(connection, [Turn(row["id"], row["route"], row["streamed"]) for row in page])
    return StoredTimeline(totals, await find_team_name(connection, team_id), page, len(rows) > limit, responses, turns)


async def make_timeline(
    stored: StoredTimeline,
    team_id: str,
    episode_id: str,
    *,
    hidden: Collection[str] = (),
    content_hidden: bool = False,
    max_characters: int = 1,
) -> EpisodeTimeline:
    """Makes a page of the timeline. `hidden`: fields of attempts to leave out. `max_characters`: of each part of a message."""
    totals, rows = stored.totals, stored.rows
    tools = await read_tool_calls(stored.responses) if stored.responses else {}
    messages = await read_turns(stored.turns, max_characters) if stored.turns else {}
    sums = {name: int(getattr(totals, name) or 0) for name in EpisodeTotals.__struct_fields__}
    return EpisodeTimeline(
        id=episode_id,
        name=totals.name,
        team_id=team_id,
        team=stored.team,
        began_at=totals.began_at.isoformat(),
        ended_at=totals.ended_at.isoformat(),
        totals=EpisodeTotals(**sums),
        inferences=[_inference(row, totals.began_at, tools.get(row["id"]), messages.get(row["id"]), hidden) for row in rows],
        next=rows[-1]["id"] if stored.has_more else None,
        content_hidden=content_hidden,
    )


def _totals(team_id: str, episode_id: str) -> Any:
    columns = inferences.c
    served_at_once = case((columns.served_provider.is_(None), 0), else_=1)
    return select(
        func.min(columns.received_at).label("began_at"),
        func.max(columns.episode_name).label("name"),
        func.max(columns.received_at + columns.duration_us * datetime.timedelta(microseconds=1)).label("ended_at"),
        func.count().label("inferences"),
        func.count().filter(columns.outcome != "answered").label("failed"),
        func.sum(func.coalesce(func.jsonb_array_length(columns.attempts), served_at_once)).label("attempts"),
        func.sum(columns.input_tokens).label("input_tokens"),
        func.sum(columns.output_tokens).label("output_tokens"),
        func.sum(columns.cost_microusd).label("cost_microusd"),
        func.count().filter(columns.cost_microusd.is_(None)).label("unpriced"),
        func.sum(columns.duration_us).label("duration_us"),
    ).where(*episode_conditions(team_id, episode_id))


_SHARED = (
    *("id", "received_at", "duration_us", "first_token_us", "route", "model", "streamed", "status", "outcome"),
    *("function", "variant", "served_variant", "experiment", "experiment_version", "not_enrolled"),
    *("error", "finish_reason", "input_tokens", "output_tokens", "cost_microusd"),
)


def _inference(
    row: Mapping[str, Any],
    began_at: datetime.datetime,
    tools: Sequence[CalledTool] | None,
    messages: Messages | None,
    hidden: Collection[str],
) -> TimelineInference:
    offset = datetime.datetime.fromisoformat(row["received_at"]) - began_at
    return TimelineInference(
        **{name: row[name] for name in _SHARED},
        offset_us=offset // datetime.timedelta(microseconds=1),
        attempts=timeline_attempts(row, hidden),
        tool_calls=tools,
        messages=messages,
    )


def timeline_attempts(row: Mapping[str, Any], hidden: Collection[str] = ()) -> list[TimelineAttempt]:
    """The attempts of a recorded inference, in the order in which they began."""
    if row["attempts"] is None:
        return [] if row["served_provider"] is None else [_only_attempt(row, hidden)]
    found: list[TimelineAttempt] = []
    ends_us = 0
    for each in sorted(row["attempts"], key=lambda attempt: attempt["started_us"]):
        fields: dict[str, Any] = {name: each.get(name) for name in _ATTEMPT_FIELDS}
        if fields["error"] is None and row["served_us"] is not None:
            fields["duration_us"] = row["served_us"]
        reason = _reason(each, found, ends_us)
        ends_us = max(ends_us, each["started_us"] + each["duration_us"])
        fields |= {"served_model": each["model"], "reason": reason, **dict.fromkeys(hidden)}
        found.append(TimelineAttempt(**fields))
    return found


_ATTEMPT_FIELDS = (
    *("provider", "endpoint", "started_us", "duration_us", "first_token_us", "status", "error", "code"),
    *("input_tokens", "output_tokens", "cost_microusd"),
)


def _reason(attempt: Mapping[str, Any], earlier: Sequence[TimelineAttempt], ends_us: int) -> AttemptReason:
    if not earlier:
        return "first"
    if attempt.get("resumed_at") is not None:
        return "resumption"
    if attempt["started_us"] < ends_us:
        return "hedge"
    before = earlier[-1]
    return "retry" if (before.provider, before.served_model) == (attempt["provider"], attempt["model"]) else "fallback"


def _only_attempt(row: Mapping[str, Any], hidden: Collection[str]) -> TimelineAttempt:
    fields: dict[str, Any] = {
        "provider": row["served_provider"],
        "served_model": row["served_model"],
        "endpoint": row["endpoint"],
        "duration_us": row["served_us"],
        "first_token_us": row["first_token_us"],
        "input_tokens": row["charged_input"],
        "output_tokens": row["charged_output"],
        "cost_microusd": row["cost_microusd"],
    }
    answered = row["outcome"] == "answered"
    served_us: int | None = row["served_us"]
    fields |= {
        "started_us": None if served_us is None else max(0, row["duration_us"] - served_us),
        "status": row["status"] if answered else None,
        **dict.fromkeys(("error", "code", *hidden)),
    }
    return TimelineAttempt(reason="first", **fields)
