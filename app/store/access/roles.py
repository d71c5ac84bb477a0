"""Roles, and what each permits: for the whole company, or within one team."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from app.domain.callers import Role

ROLES: tuple[Role, ...] = get_args(Role)

Permission = Literal[
    "config:read",  # providers, models, limits, prices, settings in force, endpoints, the history of the configuration
    "config:write",
    "experiments:force",  # promoting an arm whose conditions are not met; needs config:write, too
    "credentials:write",  # also their names are for config:read only; values can be read by nobody
    "engines:operate",  # operations on engines, draining endpoints
    "teams:read",
    "teams:write",
    "keys:read",
    "keys:write",
    "admin_keys:write",  # keys that may do everything
    "records:read",  # inferences and episodes, without what was written
    "records:content",
    "feedback:write",  # on recorded requests, as their callers send it
    "datasets:write",  # copies of what was written, which stay when records expire
    "records:erase",  # what was recorded of somebody, for good
    "access:read",  # users, service accounts, groups and their roles
    "access:write",
    "owners:write",  # giving and taking the role of an owner
    "audit:read",
]


def _permissions(*names: Permission) -> frozenset[Permission]:
    return frozenset(names)


_EVERYTHING = _permissions(*get_args(Permission))
_READ = _permissions("config:read", "teams:read", "keys:read", "records:read")

# Of a role for the whole company.
COMPANY_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "owner": _EVERYTHING,
    "admin": _EVERYTHING - _permissions("admin_keys:write", "owners:write"),
    "editor": _READ | _permissions("config:write", "teams:write", "keys:write", "records:content", "feedback:write", "datasets:write"),
    "viewer": _READ,
    "auditor": _READ | _permissions("records:content", "access:read", "audit:read"),
}

# Of a role within a team: never anything about what teams share, or about the weight that the team has against others.
_IN_TEAM = _permissions(
    *("teams:read", "keys:read", "keys:write", "records:read", "records:content", "feedback:write", "datasets:write"),
    *("access:read", "access:write", "audit:read"),
)
TEAM_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    "owner": _IN_TEAM | _permissions("owners:write"),
    "admin": COMPANY_PERMISSIONS["admin"] & _IN_TEAM,
    "editor": COMPANY_PERMISSIONS["editor"] & _IN_TEAM,
    "viewer": COMPANY_PERMISSIONS["viewer"] & _IN_TEAM,
    "auditor": COMPANY_PERMISSIONS["auditor"] & _IN_TEAM,
}


# key: an admin key. caller: any other key, which may only do what a caller may.
PrincipalKind = Literal["key", "caller", "user", "service_account"]


class Grant(Struct, frozen=True):
    """A role, within a team or (`team` None) for the whole company."""

    role: Role
    team: str | None = None


class Principal(Struct, frozen=True):
    """Who uses the admin API: an admin key, a user or a service account, with the roles in force now, or a caller's key, which has none."""

    kind: PrincipalKind
    id: str  # a key's public part, else the id of the user or service account
    name: str
    grants: Sequence[Grant]
    session_id: str | None = None  # of the token or session that was used; None: a key

    def may(self, permission: Permission, team: str | None = None) -> bool:
        """Whether it has a permission for the whole company or, with `team`, at least within that team."""
        return any(_permits(grant, permission) and grant.team in (None, team) for grant in self.grants)

    def may_give(self, grant: Grant) -> bool:
        """Whether it may give this role to others and take it back: nobody gives what they do not have themselves."""
        if grant.role == "owner" and not self.may("owners:write", grant.team):
            return False
        needed = _permissions_of(grant) | _permissions("access:write")
        return all(self.may(permission, grant.team) for permission in needed)

    def teams_with(self, permission: Permission) -> frozenset[str] | None:
        """The teams within which it has a permission. None: everywhere."""
        if self.may(permission):
            return None
        return frozenset(grant.team for grant in self.grants if grant.team is not None and _permits(grant, permission))

    def may_anywhere(self, permission: Permission) -> bool:
        return self.teams_with(permission) != frozenset()


def roles_with(permission: Permission, *, in_team: bool = False) -> list[Role]:
    """The roles that have a permission, for messages."""
    permissions = TEAM_PERMISSIONS if in_team else COMPANY_PERMISSIONS
    return [role for role in ROLES if permission in permissions[role]]


def strongest_first(grants: Iterable[Grant]) -> list[Grant]:
    """Sort grants for showing: by role, the company's before those of teams."""
    return sorted(grants, key=lambda grant: (ROLES.index(grant.role), grant.team is not None, grant.team or ""))


def only_team(grants: Iterable[Grant]) -> str | None:
    """The team whose audit log shows changes of an account with these roles: the only one in which it has any."""
    teams = {grant.team for grant in grants}
    return teams.pop() if len(teams) == 1 else None


def _permits(grant: Grant, permission: Permission) -> bool:
    return permission in _permissions_of(grant)


def _permissions_of(grant: Grant) -> frozenset[Permission]:
    return (COMPANY_PERMISSIONS if grant.team is None else TEAM_PERMISSIONS)[grant.role]
