"""Who uses the admin API, and what each role permits: /admin/v1/session, /sign-out and /roles."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.rest.admin_authentication import session_cookie_name
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.settings import PublicUrl, Settings
from app.store.access import tokens
from app.store.access.key_sessions import end_key_session
from app.store.access.roles import COMPANY_PERMISSIONS, ROLES, TEAM_PERMISSIONS, Grant, Permission, PrincipalKind, Role, strongest_first
from app.store.postgres.audit_log import AuditEvent, record
from providers.canonical.errors import InvalidRequest


class CurrentSession(Struct, frozen=True):
    """The principal that sends this request.

    `permissions` hold for the whole company; `team_permissions` are further ones within teams. A caller's key has
    neither: it may use the operations below /own.
    """

    kind: PrincipalKind
    id: str
    name: str
    roles: list[Grant]
    permissions: list[Permission]
    team_permissions: dict[str, list[Permission]]
    callers_port: Annotated[int | None, Meta(description="The port at which inference routes are; null: that of this address.")]


class RoleDescription(Struct, frozen=True):
    """A role, with what it permits when it is held for the whole company and when it is held within a team."""

    role: Role
    permissions: list[Permission]
    team_permissions: list[Permission]


class RoleList(Struct, frozen=True):
    data: list[RoleDescription]


class SignedOut(Struct, frozen=True):
    signed_out: Literal[True] = True


async def _show_session(callers_port: int | None, call: Call[NoQuery, NoBody]) -> Answer:
    principal = call.principal
    company: set[Permission] = set()
    within: dict[str, set[Permission]] = {}
    for grant in principal.grants:
        if grant.team is None:
            company |= COMPANY_PERMISSIONS[grant.role]
        else:
            within.setdefault(grant.team, set()).update(TEAM_PERMISSIONS[grant.role])
    further = {team: sorted(within[team] - company) for team in sorted(within)}
    roles = strongest_first(principal.grants)
    return Answer(CurrentSession(principal.kind, principal.id, principal.name, roles, sorted(company), further, callers_port))


async def _list_roles(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer(RoleList([RoleDescription(role, sorted(COMPANY_PERMISSIONS[role]), sorted(TEAM_PERMISSIONS[role])) for role in ROLES]))


async def _sign_out(public_url: PublicUrl, call: Call[NoQuery, NoBody]) -> Answer:
    principal = call.principal
    if principal.kind == "service_account" or principal.session_id is None:
        raise InvalidRequest("Only sessions end so. Keys and tokens of service accounts are valid until they expire or are revoked.")
    if principal.kind in ("key", "caller"):
        await end_key_session(call.connection, call.author, principal.session_id)
    elif await tokens.end_sessions(call.connection, principal.id, [principal.session_id]):
        await record(call.connection, call.author, AuditEvent("sign_out", "session", principal.name))
    secure = "; Secure" if public_url.startswith("https:") else ""
    expired = f"{session_cookie_name(public_url)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{secure}"
    return Answer(SignedOut(), headers={"set-cookie": expired})


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    callers_port = settings.port if settings.admin_port else None
    return [
        Operation(
            method="GET",
            path="/session",
            id="get_session",
            tag="Session",
            summary="Show who you are, and your roles",
            permission=None,
            access="memory",
            response=CurrentSession,
            commands=(Command(name="whoami"),),
            caller_route="",
            handler=partial(_show_session, callers_port),
        ),
        Operation(
            method="POST",
            path="/sign-out",
            id="sign_out",
            tag="Session",
            summary="End this session",
            permission=None,
            access="write",
            response=SignedOut,
            commands=(Command(name="logout"),),
            caller_route="",
            handler=partial(_sign_out, settings.public_url),
        ),
        Operation(
            method="GET",
            path="/roles",
            id="list_roles",
            tag="Roles",
            summary="List roles and what they permit",
            permission=None,
            access="memory",
            response=RoleList,
            commands=(Command(name="roles permissions"),),
            handler=_list_roles,
        ),
    ]
