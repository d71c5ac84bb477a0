"""Role grants: a role given to a user, a service account or a group, within a team or for the whole company."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.access.locking import lock_access
from app.store.access.roles import Grant, Role
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record, record_all
from app.store.postgres.conditions import one_of
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

MAX_GRANTS = 200  # of one account or group: every request of its holder reads them

ReceiverKind = Literal["user", "service_account", "group"]

_accounts, _grants, _teams = tables.principals, tables.role_grants, tables.teams


class RoleGrant(Struct, frozen=True):
    """A role that was given. One of `user`, `service_account` and `group` is set. `team` null: for the whole company."""

    id: str
    role: Role
    team: str | None
    user: str | None
    service_account: str | None
    group: str | None
    account_id: str | None
    created_at: str


_KEYSET = Keyset({"created_at": SortColumn(_grants.c.created_at, datetime)}, SortColumn(_grants.c.id))


async def page_grants(
    connection: AsyncConnection,
    query: PageQuery,
    *,
    only: Collection[str] | None,
    team: str | None = None,
    role: Role | None = None,
    receiver: tuple[ReceiverKind, str] | None = None,
) -> Page[RoleGrant]:
    """A page of grants. `only` leaves those within these teams; None means all. `receiver` is a group by its name, an account by its name
    or id.
    """
    selected = _select_rows()
    if only is not None:
        selected = selected.where(one_of(_teams.c.name, only))
    if team is not None:
        selected = selected.where(_teams.c.name == team)
    if role is not None:
        selected = selected.where(_grants.c.role == role)
    if receiver is not None:
        selected = selected.where(_is_receiver(*receiver))
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_grant)


async def find_grant(connection: AsyncConnection, id: str) -> RoleGrant | None:
    if not uuid7.is_uuid7(id):
        return None
    row = (await connection.execute(_select_rows().where(_grants.c.id == id))).one_or_none()
    return None if row is None else _to_grant(row)


async def give_role(
    connection: AsyncConnection, author: Author, grant: Grant, *, account_id: str | None = None, group: str | None = None
) -> tuple[RoleGrant, bool]:
    """Give a role to an account, or to a group. Returns it, and whether it is new. Raises InvalidKeyField for an unknown team."""
    if group is not None and (not group or not group.isprintable() or len(group) > MAX_NAME_CHARACTERS):
        raise InvalidKeyField("group", f"The name of a group has 1 to {MAX_NAME_CHARACTERS} printable characters, unlike {group!r:.60}.")
    await lock_access(connection)
    team_id: str | None = None
    if grant.team is not None:
        team_id = await connection.scalar(select(_teams.c.id).where(_teams.c.name == grant.team).with_for_update(read=True, key_share=True))
        if team_id is None:
            raise InvalidKeyField("team", f"There is no team {grant.team!r:.100}: it exists once it has a key, or settings.")
    of_receiver = _grants.c.principal_id == account_id if group is None else _grants.c.group_name == group
    if (await connection.scalar(select(func.count()).where(of_receiver)) or 0) >= MAX_GRANTS:
        raise InvalidKeyField("role", f"It has {MAX_GRANTS} roles, the most that it may have; one for the company is for all teams.")
    id = uuid7.mint()
    row = insert(_grants).values(id=id, principal_id=account_id, group_name=group, role=grant.role, team_id=team_id)
    is_new = bool((await connection.execute(row.on_conflict_do_nothing())).rowcount)
    if not is_new:
        same = (
            _grants.c.principal_id.is_not_distinct_from(account_id),
            _grants.c.group_name.is_not_distinct_from(group),
            _grants.c.role == grant.role,
            _grants.c.team_id.is_not_distinct_from(team_id),
        )
        id = str(await connection.scalar(select(_grants.c.id).where(*same)))
    stored = await find_grant(connection, id)
    assert stored is not None, "it was stored in this transaction, or is locked by it"
    if is_new:
        await record(connection, author, AuditEvent("create", "role_grant", _describe(stored), None, _audited(stored), stored.team))
    return stored, is_new


async def take_role(connection: AsyncConnection, author: Author, grant: RoleGrant) -> bool:
    """Take a role back, from the next request on. Returns whether it was still there."""
    await lock_access(connection)
    if not (await connection.execute(delete(_grants).where(_grants.c.id == grant.id))).rowcount:
        return False
    await record(connection, author, _taken_event(grant))
    return True


async def take_roles_in(connection: AsyncConnection, author: Author, team: str) -> list[RoleGrant]:
    """Take back all roles within a team; returns them."""
    await lock_access(connection)
    taken = [_to_grant(row) for row in await connection.execute(_select_rows().where(_teams.c.name == team).order_by(_grants.c.id))]
    await connection.execute(delete(_grants).where(_grants.c.team_id.in_(select(_teams.c.id).where(_teams.c.name == team))))
    await record_all(connection, author, (_taken_event(grant) for grant in taken))
    return taken


def _taken_event(grant: RoleGrant) -> AuditEvent:
    return AuditEvent("delete", "role_grant", _describe(grant), _audited(grant), None, grant.team)


def _is_receiver(kind: ReceiverKind, name: str) -> ColumnElement[bool]:
    if kind == "group":
        return _grants.c.group_name == name
    return (_accounts.c.kind == kind) & (_accounts.c.id == name if uuid7.is_uuid7(name) else _accounts.c.name == name)


def _select_rows() -> Select[Any]:
    columns = select(_grants, _teams.c.name.label("team"), _accounts.c.kind, _accounts.c.name.label("account"))
    with_team = columns.join(_teams, _teams.c.id == _grants.c.team_id, isouter=True)
    return with_team.join(_accounts, _accounts.c.id == _grants.c.principal_id, isouter=True)


def _to_grant(row: Row[Any]) -> RoleGrant:
    user = row.account if row.kind == "user" else None
    service_account = row.account if row.kind == "service_account" else None
    created_at = row.created_at.isoformat()
    return RoleGrant(row.id, row.role, row.team, user, service_account, row.group_name, row.principal_id, created_at)


def _describe(grant: RoleGrant) -> str:
    receiver = f"group {grant.group}" if grant.group is not None else grant.user or grant.service_account
    return f"{receiver}: {grant.role}" + ("" if grant.team is None else f" in {grant.team}")


def _audited(grant: RoleGrant) -> dict[str, Any]:
    return {name: getattr(grant, name) for name in ("id", "role", "team", "user", "service_account", "group")}
