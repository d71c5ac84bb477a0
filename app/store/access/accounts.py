"""Accounts: users, who sign in through an issuer, and service accounts, which have tokens. With the roles in force of each."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ARRAY, ColumnElement, Row, Text, cast, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import BoundReached, InvalidKeyField
from app.settings import Settings
from app.store.access.locking import lock_access
from app.store.access.roles import Grant, Role
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.conditions import one_of
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

AccountKind = Literal["user", "service_account"]
# The roles of groups as NARTHEX_OIDC_GROUP_ROLES gives them.
GroupRoles = Mapping[str, Sequence[Grant]]

# Service accounts that are named after no team, and those of each team (TEAM/NAME): none can take the places of another.
MAX_SERVICE_ACCOUNTS, MAX_SERVICE_ACCOUNTS_OF_TEAM = 10_000, 1_000

_accounts, _grants, _teams = tables.principals, tables.role_grants, tables.teams


class RoleInForce(Struct, frozen=True):
    """A role of an account. `team` null: for the whole company. `group` null: it was given to the account itself.

    `grant_id` null: it comes from NARTHEX_OIDC_GROUP_ROLES.
    """

    role: Role
    team: str | None
    group: str | None
    grant_id: str | None


class Account(Struct, frozen=True):
    """A user or a service account. `issuer` to `signed_in_at`: of users. `groups`: as the issuer named them at the last sign-in."""

    id: str
    kind: AccountKind
    name: str
    issuer: str | None
    subject: str | None
    email: str | None
    groups: tuple[str, ...]
    created_at: str
    signed_in_at: str | None
    disabled: bool
    roles: tuple[RoleInForce, ...]

    @property
    def grants(self) -> list[Grant]:
        return [Grant(each.role, each.team) for each in self.roles]


def configured_group_roles(settings: Settings) -> GroupRoles:
    return {group: [Grant(role, team) for role, team in roles] for group, roles in settings.oidc_group_roles.parsed.items()}


_KEYSET = Keyset(
    {"name": SortColumn(_accounts.c.name), "created_at": SortColumn(_accounts.c.created_at, datetime)}, SortColumn(_accounts.c.id)
)


async def page_accounts(
    connection: AsyncConnection,
    query: PageQuery,
    kind: AccountKind,
    group_roles: GroupRoles,
    *,
    only: Collection[str] | None,
    search: str | None,
) -> Page[Account]:
    """A page of accounts.

    `only` leaves those with a role in one of these teams; None means all. `search` is text in their names, in any case.
    """
    selected = select(_accounts).where(_accounts.c.kind == kind)
    if only is not None:
        selected = selected.where(_has_role_in(only, group_roles))
    if search is not None:
        selected = selected.where(_accounts.c.name.icontains(search, autoescape=True))
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    roles = await _read_roles(connection, rows, group_roles)
    return _KEYSET.page(rows, query, lambda row: _to_account(row, roles[row.id]))


async def find_account(
    connection: AsyncConnection, kind: AccountKind, group_roles: GroupRoles, *, id: str | None = None, name: str | None = None
) -> Account | None:
    """The account with an id or a name; an id that is not a UUID has none."""
    if id is not None and not uuid7.is_uuid7(id):
        return None
    by = _accounts.c.name == name if id is None else _accounts.c.id == id
    row = (await connection.execute(select(_accounts).where(_accounts.c.kind == kind, by))).one_or_none()
    return None if row is None else _to_account(row, (await _read_roles(connection, [row], group_roles))[row.id])


def check_account_name(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField(
            "name", f"A name has 1 to {MAX_NAME_CHARACTERS} printable characters and no space at its ends, unlike {name!r:.60}."
        )
    return name


async def create_service_account(connection: AsyncConnection, author: Author, name: str, *, team: str | None = None) -> str | None:
    """Create a service account without roles, and return its id; None: there is one of that name. `team` is for the audit log.

    Raises InvalidKeyField and BoundReached.
    """
    check_account_name(name)
    await lock_access(connection)
    taken = select(_accounts.c.id).where(_accounts.c.kind == "service_account", _accounts.c.name == name)
    if await connection.scalar(taken) is not None:
        return None
    await _check_room(connection, name)
    id = uuid7.mint()
    await connection.execute(_accounts.insert().values(id=id, kind="service_account", name=name))
    await record(connection, author, AuditEvent("create", "service_account", name, None, {"id": id}, team))
    return id


async def _check_room(connection: AsyncConnection, name: str) -> None:
    """Raises BoundReached if there may be no more service accounts beside one that is so named. Roles are taken away; names stay."""
    before_slash = func.regexp_replace(_accounts.c.name, "/?[^/]*$", "")
    named_after = await connection.scalar(select(_teams.c.name).where(_teams.c.name == name.rpartition("/")[0]))
    if named_after is None:
        most, whose = MAX_SERVICE_ACCOUNTS, "the company"
        counted = before_slash.not_in(select(_teams.c.name))
    else:
        most, whose = MAX_SERVICE_ACCOUNTS_OF_TEAM, f"the team {named_after!r:.100}"
        counted = before_slash == named_after
    count = select(func.count()).select_from(_accounts).where(_accounts.c.kind == "service_account", counted)
    if (await connection.scalar(count) or 0) >= most:
        raise BoundReached(f"There are {most:,} service accounts of {whose}, which is the most there may be: delete some.")


async def set_disabled(connection: AsyncConnection, author: Author, account: Account, *, disabled: bool, team: str | None = None) -> None:
    """Disable or enable an account. A disabled one has no access from the next request on; its sessions end, its tokens stay."""
    await lock_access(connection)
    values = {"disabled_at": func.now() if disabled else None}
    await connection.execute(update(_accounts).where(_accounts.c.id == account.id).values(values))
    if disabled:
        sessions = tables.admin_tokens
        of_account = sessions.c.principal_id == account.id, sessions.c.kind != "service_account", sessions.c.revoked_at.is_(None)
        await connection.execute(update(sessions).where(*of_account).values(revoked_at=func.now()))
    event = AuditEvent("update", account.kind, account.name, {"disabled": account.disabled}, {"disabled": disabled}, team)
    await record(connection, author, event)


async def delete_account(connection: AsyncConnection, author: Author, account: Account, *, team: str | None = None) -> None:
    """Delete an account with its roles, tokens and sessions; what it did stays in the audit log."""
    await lock_access(connection)
    await connection.execute(delete(_accounts).where(_accounts.c.id == account.id))
    before = {"id": account.id, "disabled": account.disabled, "roles": [[each.role, each.team] for each in account.roles]}
    await record(connection, author, AuditEvent("delete", account.kind, account.name, before, None, team))


async def count_company_owners(connection: AsyncConnection, group_roles: GroupRoles) -> int:
    """Count the enabled accounts that are owners of the company."""
    of_company = (_grants.c.role == "owner", _grants.c.team_id.is_(None))
    groups = [group for group, grants in group_roles.items() if Grant("owner") in grants]
    owning_groups = [*groups, *await connection.scalars(select(_grants.c.group_name).where(*of_company, _grants.c.group_name.is_not(None)))]
    by_themselves = select(_grants.c.principal_id).where(*of_company, _grants.c.principal_id.is_not(None))
    is_owner = or_(_accounts.c.id.in_(by_themselves), _accounts.c.groups.overlap(cast(owning_groups, ARRAY(Text))))
    count = select(func.count()).select_from(_accounts).where(_accounts.c.disabled_at.is_(None), is_owner)
    return await connection.scalar(count) or 0


def _has_role_in(teams: Collection[str], group_roles: GroupRoles) -> ColumnElement[bool]:
    in_teams = select(_grants).join(_teams, _teams.c.id == _grants.c.team_id).where(one_of(_teams.c.name, teams)).subquery()
    configured = [group for group, grants in group_roles.items() if any(grant.team in teams for grant in grants)]
    groups = select(func.array_agg(in_teams.c.group_name)).where(in_teams.c.group_name.is_not(None)).scalar_subquery()
    return or_(
        _accounts.c.id.in_(select(in_teams.c.principal_id).where(in_teams.c.principal_id.is_not(None))),
        _accounts.c.groups.overlap(groups),
        _accounts.c.groups.overlap(cast(configured, ARRAY(Text))),
    )


async def _read_roles(connection: AsyncConnection, rows: Sequence[Row[Any]], group_roles: GroupRoles) -> dict[str, tuple[RoleInForce, ...]]:
    """The roles in force of each account, by its id."""
    groups = {group for row in rows for group in row.groups or ()}
    receives = or_(_grants.c.principal_id.in_([row.id for row in rows]), one_of(_grants.c.group_name, groups))
    selected = select(_grants, _teams.c.name.label("team")).join(_teams, _teams.c.id == _grants.c.team_id, isouter=True)
    by_receiver: dict[str, list[RoleInForce]] = {}
    for row in await connection.execute(selected.where(receives).order_by(_grants.c.id)):
        receiver = row.principal_id or f"group {row.group_name}"
        by_receiver.setdefault(receiver, []).append(RoleInForce(row.role, row.team, row.group_name, row.id))
    found: dict[str, tuple[RoleInForce, ...]] = {}
    for row in rows:
        roles = list(by_receiver.get(row.id, ()))
        for group in row.groups or ():
            roles += by_receiver.get(f"group {group}", ())
            roles += [RoleInForce(grant.role, grant.team, group, None) for grant in group_roles.get(group, ())]
        found[row.id] = tuple(roles)
    return found


def _to_account(row: Row[Any], roles: tuple[RoleInForce, ...]) -> Account:
    return Account(
        row.id,
        row.kind,
        row.name,
        row.issuer,
        row.subject,
        row.email,
        tuple(row.groups or ()),
        row.created_at.isoformat(),
        row.signed_in_at and row.signed_in_at.isoformat(),
        row.disabled_at is not None,
        roles,
    )
