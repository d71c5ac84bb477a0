"""Queries of feedback: events as they were received, the history of one feedback, and what there is on an inference."""

import datetime
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, String, and_, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.experiments import MetricKind, MetricLevel
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.records.episode_lookup import find_episode_ids
from app.store.usage.named_filters import NamedFilters, check_named

OpenTransaction = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

_feedback, _teams, _keys = tables.feedback.c, tables.teams.c, tables.keys.c
FeedbackEventAction = Literal["create", "correct", "withdraw", "conflict"]
_EXPORT_PAGE_ROWS = 500
_MAX_OF_INFERENCE = 100
MAX_HISTORY = 200


class FeedbackEvent(Struct, frozen=True, kw_only=True):
    """An event. `feedback_id`: of the feedback that it creates, corrects or withdraws. `key`: who sent it.

    `action` `conflict`: it was sent with the id of that feedback, and is other feedback, so it does not count.
    `metric`, `kind`, `level`, `inference_id`, `episode_id`, `value` null: it withdraws. `value` also: nothing of it is kept, by
    `content`, or your roles do not show what was written. `current`: it counts. `matched_at`: when its inference or episode was found, of
    which are `model`, `function`, `variant` and `not_enrolled`, why it does not count in an experiment; null: not yet.
    """

    id: str
    feedback_id: str
    action: FeedbackEventAction
    received_at: str
    team: str | None
    key: str | None
    metric: str | None
    kind: MetricKind | None
    level: MetricLevel | None
    inference_id: str | None
    episode_id: str | None
    value: Any
    content: Literal["full", "masked", "redacted", "none", "erased"]
    tags: dict[str, Any] | None
    current: bool
    matched_at: str | None
    model: str | None
    function: str | None
    variant: str | None
    erased_at: str | None
    not_enrolled: str | None


class FeedbackFilter(Struct, frozen=True):
    """The events to select; `None` means any.

    `episode` is its UUID, or the text that its caller names it by. `only_teams` selects events of teams with
    these names; None means those of all.
    """

    metric: str | None = None
    action: str | None = None
    kind: str | None = None
    team: str | None = None
    key: str | None = None
    inference_id: str | None = None
    episode: str | None = None
    model: str | None = None
    function: str | None = None
    variant: str | None = None
    matched: bool | None = None
    current: bool | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    only_teams: Collection[str] | None = None


async def list_feedback(connection: AsyncConnection, filters: FeedbackFilter, *, before: str | None, limit: int) -> list[FeedbackEvent]:
    """A page, newest first. `before` is the id of the last event of the page before."""
    conditions = [*_conditions(filters)]
    if filters.episode is not None:
        ids = await find_episode_ids(connection, filters.episode, team=filters.team, only_teams=filters.only_teams)
        conditions.append(and_(_feedback.level == "episode", _feedback.target_id.in_(ids)))
    if before is not None:
        conditions.append(_feedback.id < before)
    rows = (await connection.execute(_select().where(*conditions).order_by(_feedback.id.desc()).limit(limit))).all()
    if before is None and not rows:
        named = NamedFilters(team=filters.team, key=filters.key, model=filters.model, function=filters.function)
        await check_named(connection, named, filters.only_teams)
    return [_to_event(row) for row in rows]


async def walk_feedback(open_transaction: OpenTransaction, filters: FeedbackFilter) -> AsyncGenerator[list[FeedbackEvent]]:
    """All that match, newest first, in pages, each read in a transaction of its own."""
    before: str | None = None
    while True:
        async with open_transaction() as connection:
            events = await list_feedback(connection, filters, before=before, limit=_EXPORT_PAGE_ROWS)
        yield events
        if len(events) < _EXPORT_PAGE_ROWS:
            return
        before = events[-1].id


class History(Struct, frozen=True):
    """The events of a team's feedback, the newest first, at most MAX_HISTORY; and the other teams that use the same id."""

    team: str
    events: Sequence[FeedbackEvent]
    other_teams: Sequence[str]


async def read_history(
    connection: AsyncConnection, feedback_id: str, team: str | None, only_teams: Collection[str] | None
) -> History | None:
    """The events of feedback with this id. Another team's events with the same id are its own feedback.

    `team` None means the one that created feedback with this id first.
    """
    of_teams = [] if only_teams is None else [_of_teams(only_teams)]
    created = func.min(cast(_feedback.id, String)).filter(_feedback.action == "create")
    using = (
        select(_feedback.team_id, func.coalesce(_teams.name, cast(_feedback.team_id, String)).label("team"))
        .select_from(tables.feedback.outerjoin(tables.teams, _teams.id == _feedback.team_id))
        .where(_feedback.feedback_id == feedback_id, *of_teams)
        .group_by(_feedback.team_id, _teams.name)
        .order_by(created.asc().nulls_last(), func.min(cast(_feedback.id, String)))
        .limit(MAX_HISTORY)
    )
    rows = (await connection.execute(using)).all()
    wanted = next((row for row in rows if team in (None, row.team)), None)
    if wanted is None:
        return None
    of_feedback = (_feedback.feedback_id == feedback_id, _feedback.team_id == wanted.team_id)
    query = _select().where(*of_feedback).order_by(_feedback.id.desc()).limit(MAX_HISTORY)
    events = [_to_event(row) for row in await connection.execute(query)]
    return History(wanted.team, events, [row.team for row in rows if row is not wanted])


async def read_feedback_on(connection: AsyncConnection, inference_id: str, team_id: str) -> Sequence[FeedbackEvent]:
    """Returns the feedback on an inference that counts, the newest first, at most a hundred events.

    Events from more than a day before the inference are not searched: nobody knew its id long before it
    began.
    """
    query = _select().where(
        _feedback.target_id == inference_id,
        _feedback.team_id == team_id,
        _feedback.level == "inference",
        _feedback.is_current,
        _feedback.id >= uuid7.lowest_at(uuid7.created_ms(inference_id) - 86_400_000),
    )
    return [_to_event(row) for row in await connection.execute(query.order_by(_feedback.id.desc()).limit(_MAX_OF_INFERENCE))]


def _select() -> Select[Any]:
    joined = tables.feedback.outerjoin(tables.teams, _teams.id == _feedback.team_id).outerjoin(tables.keys, _keys.id == _feedback.key_id)
    return select(
        tables.feedback,
        func.coalesce(_teams.name, cast(_feedback.team_id, String)).label("team"),
        func.coalesce(literal("nx-") + _keys.prefix, cast(_feedback.key_id, String)).label("key"),
    ).select_from(joined)


def _conditions(filters: FeedbackFilter) -> Iterator[ColumnElement[bool]]:
    for name in ("metric", "action", "kind", "model", "function", "variant"):
        if (value := getattr(filters, name)) is not None:
            yield _feedback[name] == value
    if filters.team is not None:
        yield _of_teams([filters.team])
    if filters.only_teams is not None:
        yield _of_teams(filters.only_teams)
    if filters.key is not None:
        yield _feedback.key_id == select(_keys.id).where(_keys.prefix == filters.key).scalar_subquery()
    if filters.inference_id is not None:
        yield and_(_feedback.level == "inference", _feedback.target_id == filters.inference_id)
    if filters.matched is not None:
        is_matched = _feedback.matched_at.isnot(None)
        yield is_matched if filters.matched else and_(_feedback.matched_at.is_(None), _feedback.target_id.isnot(None))
    if filters.current is not None:
        yield _feedback.is_current if filters.current else ~_feedback.is_current
    if filters.since is not None:
        yield _feedback.id >= uuid7.lowest_at(int(filters.since.timestamp() * 1000))
    if filters.until is not None:
        yield _feedback.id < uuid7.lowest_at(int(filters.until.timestamp() * 1000))


def _of_teams(names: Collection[str]) -> ColumnElement[bool]:
    return _feedback.team_id.in_(select(_teams.id).where(one_of(_teams.name, names)))


def _to_event(row: Row[Any]) -> FeedbackEvent:
    return FeedbackEvent(
        id=row.id,
        feedback_id=row.feedback_id,
        action=row.action,
        received_at=row.received_at.isoformat(),
        team=row.team,
        key=row.key,
        metric=row.metric,
        kind=row.kind,
        level=row.level,
        inference_id=row.target_id if row.level == "inference" else None,
        episode_id=row.target_id if row.level == "episode" else None,
        value=row.value,
        content=row.content,
        tags=row.tags,
        current=row.is_current,
        matched_at=None if row.matched_at is None else row.matched_at.isoformat(),
        model=row.model,
        function=row.function,
        variant=row.variant,
        erased_at=None if row.erased_at is None else row.erased_at.isoformat(),
        not_enrolled=row.not_enrolled,
    )
