"""Queries of sampled refusals."""

import datetime
from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, String, cast, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.wait_sentences import read_pass_time
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.usage.named_filters import NamedFilters, check_named
from app.store.usage.rollups import UNKNOWN

_refusals, _teams, _keys = tables.refusals.c, tables.teams.c, tables.keys.c
_EQUAL = ("route", "model", "status", "error", "rule")


class StoredRefusal(Struct, frozen=True, kw_only=True):
    """A refused request, as it is stored. The admin API describes its fields, in app/api/admin/records/refusals.py."""

    id: str
    received_at: str
    team: str | None
    key: str | None
    unknown_key: str | None
    route: str
    model: str
    status: int
    error: str
    code: str | None
    param: str | None
    rule: str | None
    message: str | None
    request_id: str | None
    trace_id: str | None
    passes_at: str | None
    passes_at_is_estimate: bool


class RefusalFilter(Struct, frozen=True):
    """The refusals to select; `None` means any. `status_class` is 4 for 4xx.

    `team` is a name, or `(unknown)` for requests without a known key. `key` is the public part, without
    `nx-`, of a known or unknown key. `only_teams` selects refusals of these teams only; None means those of
    all teams, and of unknown keys.
    """

    team: str | None = None
    key: str | None = None
    route: str | None = None
    model: str | None = None
    status: int | None = None
    status_class: int | None = None
    error: str | None = None
    rule: str | None = None
    request_id: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    only_teams: Collection[str] | None = None


async def list_refusals(connection: AsyncConnection, filters: RefusalFilter, *, before: str | None, limit: int) -> list[StoredRefusal]:
    """A page, newest first. `before` is the id of the last one of the page before."""
    joined = tables.refusals.outerjoin(tables.teams, _teams.id == _refusals.team_id).outerjoin(tables.keys, _keys.id == _refusals.key_id)
    query = (
        select(
            tables.refusals,
            func.coalesce(_teams.name, cast(_refusals.team_id, String)).label("team"),
            func.coalesce(literal("nx-") + _keys.prefix, cast(_refusals.key_id, String)).label("key"),
        )
        .select_from(joined)
        .where(*_conditions(filters))
        .order_by(_refusals.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(_refusals.id < before)
    rows = (await connection.execute(query)).all()
    if before is None and not rows:  # a refused request may have had any key, and named any model
        await check_named(connection, NamedFilters(team=filters.team), filters.only_teams)
    return [_to_refusal(row) for row in rows]


def _conditions(filters: RefusalFilter) -> Iterator[ColumnElement[bool]]:
    for name in _EQUAL:
        if (value := getattr(filters, name)) is not None:
            yield _refusals[name] == value
    if filters.status_class is not None:
        yield _refusals.status.between(filters.status_class * 100, filters.status_class * 100 + 99)
    if filters.team == UNKNOWN:
        yield _refusals.team_id.is_(None)
    elif filters.team is not None:
        yield _of_teams([filters.team])
    if filters.only_teams is not None:
        yield _of_teams(filters.only_teams)
    if filters.key is not None:
        known = select(_keys.id).where(_keys.prefix == filters.key).scalar_subquery()
        yield or_(_refusals.key_id == known, _refusals.unknown_key == filters.key)
    if filters.request_id is not None:
        # Without one of its own, a request answered with its id.
        has_it = _refusals.request_id == filters.request_id
        yield or_(has_it, _refusals.id == filters.request_id.lower()) if uuid7.is_uuid7(filters.request_id) else has_it
    if filters.since is not None:
        yield _refusals.id >= _lowest_id(filters.since)
    if filters.until is not None:
        yield _refusals.id < _lowest_id(filters.until)


def _of_teams(names: Collection[str]) -> ColumnElement[bool]:
    return _refusals.team_id.in_(select(_teams.id).where(one_of(_teams.name, names)))


def _lowest_id(moment: datetime.datetime) -> str:
    return uuid7.lowest_at(int(moment.timestamp() * 1000))


def _to_refusal(row: Row[Any]) -> StoredRefusal:
    passes = None if row.message is None else read_pass_time(row.message, row.received_at)
    return StoredRefusal(
        id=row.id,
        received_at=row.received_at.isoformat(),
        team=row.team,
        key=row.key,
        unknown_key=None if row.unknown_key is None else f"nx-{row.unknown_key}",
        route=row.route,
        model=row.model,
        status=row.status,
        error=row.error,
        code=row.code,
        param=row.param,
        rule=row.rule or None,
        message=row.message,
        request_id=row.request_id,
        trace_id=row.trace_id,
        passes_at=None if passes is None else passes.at.astimezone(datetime.UTC).isoformat(timespec="seconds"),
        passes_at_is_estimate=passes is not None and passes.is_estimate,
    )
