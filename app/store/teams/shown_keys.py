"""Keys as they are shown: each with its restrictions, found by filters, and never the key itself."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import Row, Select, func, not_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import DroppableFields
from app.store.keys.droppable_fields import from_drop_column
from app.store.keys.key_format import parse_prefix
from app.store.keys.rows import valid_key_conditions
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.postgres.database import Database, transaction
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn
from app.store.usage.key_usage import is_unused_since

_keys, _teams = tables.keys, tables.teams

KeyState = Literal["valid", "revoked", "expired"]

_KEYSET = Keyset(
    {
        "created_at": SortColumn(_keys.c.created_at, datetime),
        "name": SortColumn(_keys.c.name),
        "team": SortColumn(_teams.c.name),
        "prefix": SortColumn(_keys.c.prefix),
    },
    SortColumn(_keys.c.id),
)


class KeyRow(Struct, frozen=True):
    """The part of a key that may be shown. Times are ISO 8601.

    None in a restriction means that there is none. `drop` is without what its team's adds. `priority` is None
    if the team's counts. `counts_as` is the first of the keys that it replaces, one after the other, as which
    limits count it.
    """

    prefix: str
    team: str
    name: str
    admin: bool
    created_at: str
    revoked_at: str | None
    expires_at: str | None
    models: list[str] | None
    routes: list[str] | None
    networks: list[str] | None
    drop: DroppableFields
    priority: int | None
    replaced_by: str | None
    counts_as: str | None
    id: str


class KeyFilter(Struct, frozen=True):
    """The keys that a list has. None in a field means any.

    `only_teams` leaves keys of teams with these names. `expires_before` finds keys whether they are valid or
    not, and `unused_since` those that were there then and made no request since. `search` finds keys with
    this text in the name or public part, in any case; of a complete key only the public part counts.
    """

    team: str | None = None
    only_teams: Collection[str] | None = None
    admin: bool | None = None
    state: KeyState | None = None
    search: str | None = None
    expires_before: datetime | None = None
    unused_since: datetime | None = None


async def list_keys(
    database: Database,
    *,
    team: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    valid_only: bool = False,
    with_drop: bool = False,
) -> list[KeyRow]:
    """Keys, oldest first, after the one with the prefix `after`.

    `valid_only` leaves out those revoked or expired, `with_drop` those without the option `drop`.
    """
    query = _select_rows().order_by(_keys.c.id).limit(limit)
    if team is not None:
        team_id = select(_teams.c.id).where(_teams.c.name == team.replace("\0", "")).scalar_subquery()
        query = query.where(_keys.c.team_id == team_id)
    if valid_only:
        query = query.where(*valid_key_conditions())
    if with_drop:
        query = query.where(_keys.c.drop.is_not(None))
    if after is not None:
        last = select(_keys.c.id).where(_keys.c.prefix == parse_prefix(after)).scalar_subquery()
        query = query.where(_keys.c.id > last)
    async with transaction(database) as connection:
        return [_to_key_row(row) for row in await connection.execute(query)]


async def page_keys(connection: AsyncConnection, query: PageQuery, filters: KeyFilter) -> Page[KeyRow]:
    rows = (await connection.execute(_KEYSET.page_query(_select_rows().where(*_conditions(filters)), query))).all()
    return _KEYSET.page(rows, query, _to_key_row)


def _conditions(filters: KeyFilter) -> list[Any]:
    conditions: list[Any] = []
    if filters.team is not None:
        conditions.append(_teams.c.name == filters.team)
    if filters.only_teams is not None:
        conditions.append(one_of(_teams.c.name, filters.only_teams))
    if filters.admin is not None:
        conditions.append(_keys.c.admin if filters.admin else not_(_keys.c.admin))
    match filters.state:
        case "valid":
            conditions += valid_key_conditions()
        case "revoked":
            conditions.append(_keys.c.revoked_at.is_not(None))
        case "expired":
            conditions += [_keys.c.revoked_at.is_(None), _keys.c.expires_at <= func.now()]
        case None:
            pass
    if filters.search is not None:
        text = parse_prefix(filters.search) or filters.search
        matches = (column.icontains(text, autoescape=True) for column in (_keys.c.name, _keys.c.prefix))
        conditions.append(or_(*matches))
    if filters.expires_before is not None:
        conditions.append(_keys.c.expires_at < filters.expires_before)
    if filters.unused_since is not None:
        conditions.append(is_unused_since(filters.unused_since))
    return conditions


def _select_rows() -> Select[Any]:
    return select(_keys, _teams.c.name.label("team")).join(_teams, _teams.c.id == _keys.c.team_id)


async def show_key(database: Database, prefix: str) -> KeyRow | None:
    query = _select_rows()
    async with transaction(database) as connection:
        row = (await connection.execute(query.where(_keys.c.prefix == parse_prefix(prefix)))).one_or_none()
    return None if row is None else _to_key_row(row)


def _to_key_row(row: Row[Any]) -> KeyRow:
    return KeyRow(
        row.prefix,
        row.team,
        row.name,
        row.admin,
        row.created_at.isoformat(),
        row.revoked_at and row.revoked_at.isoformat(),
        row.expires_at and row.expires_at.isoformat(),
        row.models,
        row.routes,
        row.networks,
        from_drop_column(row.drop),
        row.priority,
        row.replaced_by,
        row.counts_as,
        row.id,
    )
