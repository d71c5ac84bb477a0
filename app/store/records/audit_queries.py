"""Questions to the audit log: pages of events, newest first, one event, and all of them for an export."""

from collections.abc import AsyncGenerator, Collection
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, Text, cast, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.audit_log import AuthorKind, Via
from app.store.postgres.conditions import OpenTransaction, one_of

_audit = tables.audit_log.c
# An event has the time of the database when its transaction began, and its id the time of the process that wrote it.
_CLOCKS_DIFFER_BY = timedelta(hours=1)
_EXPORT_PAGE_ROWS = 500


class Actor(Struct, frozen=True):
    """Who made a change. `id`: of the key (its public part), user or service account; null: a command, or the gateway itself."""

    kind: AuthorKind
    id: str | None
    name: str


class RecordedEvent(Struct, frozen=True):
    """A change to one resource.

    `before` null: the resource was new; `after` null: it is gone; secrets are masked. `team`: whose it is; null: the whole company's.
    `version`: of the configuration that has the change; null: it changed none. `request_id`: the x-request-id of the response.
    """

    id: str
    at: str
    actor: Actor
    via: Via
    ip: str | None
    user_agent: str | None
    action: str
    resource: str
    name: str
    team: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str | None
    version: int | None


class AuditFilter(Struct, frozen=True):
    """The events to select; `None` means any.

    `actor` is an id or a name. `search` is text in names and in what was changed, in any case. `teams`
    selects events of these teams only; None means those of all teams, and of no team.
    """

    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    name: str | None = None
    team: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    via: Via | None = None
    search: str | None = None
    teams: Collection[str] | None = None


async def list_events(connection: AsyncConnection, wanted: AuditFilter, *, before: str | None, limit: int) -> list[RecordedEvent]:
    """Events, newest first. `before` is the id of the last event of the page before."""
    query = select(tables.audit_log).where(*_conditions(wanted)).order_by(_audit.id.desc()).limit(limit)
    if before is not None:
        query = query.where(_audit.id < before)
    return await _read(connection, query)


async def find_event(connection: AsyncConnection, id: str, *, teams: Collection[str] | None) -> RecordedEvent | None:
    """The event with this id. It is found only if it is of one of `teams`; None: of any, or of no team."""
    found = await _read(connection, select(tables.audit_log).where(_audit.id == id, *_conditions(AuditFilter(teams=teams))))
    return found[0] if found else None


async def walk_events(open_transaction: OpenTransaction, wanted: AuditFilter) -> AsyncGenerator[list[RecordedEvent]]:
    """All events, newest first, in pages, each read in a transaction of its own: memory and the time of a statement are bounded."""
    last: str | None = None
    while True:
        async with open_transaction() as connection:
            events = await list_events(connection, wanted, before=last, limit=_EXPORT_PAGE_ROWS)
        if events:
            yield events
        if len(events) < _EXPORT_PAGE_ROWS:
            return
        last = events[-1].id


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.actor is not None:
        conditions.append(or_(_audit.author_id == wanted.actor, _audit.author_name == wanted.actor))
    for column, value in (
        (_audit.action, wanted.action),
        (_audit.resource, wanted.resource),
        (_audit.name, wanted.name),
        (_audit.team, wanted.team),
        (_audit.via, wanted.via),
    ):
        if value is not None:
            conditions.append(column == value)
    # The bounds of the id only spare reading what is far outside.
    if wanted.since is not None:
        conditions += [_audit.at >= wanted.since, _audit.id >= _lowest_id(wanted.since - _CLOCKS_DIFFER_BY)]
    if wanted.until is not None:
        conditions += [_audit.at < wanted.until, _audit.id < _lowest_id(wanted.until + _CLOCKS_DIFFER_BY)]
    if wanted.search is not None:
        texts = (_audit.name, _audit.author_name, cast(_audit.before, Text), cast(_audit.after, Text))
        conditions.append(or_(*(text.icontains(wanted.search, autoescape=True) for text in texts)))
    if wanted.teams is not None:
        conditions.append(one_of(_audit.team, wanted.teams))
    return conditions


def _lowest_id(moment: datetime) -> str:
    return uuid7.lowest_at(int(moment.timestamp() * 1000))


async def _read(connection: AsyncConnection, query: Select[Any]) -> list[RecordedEvent]:
    return [_to_event(row) for row in await connection.execute(query)]


def _to_event(row: Row[Any]) -> RecordedEvent:
    return RecordedEvent(
        row.id,
        row.at.isoformat(),
        Actor(row.author_kind, row.author_id, row.author_name),
        row.via,
        row.ip,
        row.user_agent,
        row.action,
        row.resource,
        row.name,
        row.team,
        row.before,
        row.after,
        row.request_id,
        row.version,
    )
