"""Users, who sign in with an issuer: /admin/v1/users. They are created by their first sign-in."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.rest.access_rules import require_may_give, require_other_owner, shown_roles
from app.api.rest.command import Column, Command, Option
from app.api.rest.etags import etag_of
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.uuid7 import is_uuid7
from app.store.access import accounts, tokens
from app.store.access.accounts import Account, GroupRoles, RoleInForce
from app.store.access.locking import lock_access
from app.store.access.tokens import Session
from app.store.postgres.audit_log import AuditEvent, record
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import UnknownRecord

FIRST_SIGN_IN = "A user exists from the first sign-in on."


class User(Struct, frozen=True):
    """A user. `issuer` and `subject` identify the person. `groups`: as the issuer named them at the last sign-in. `roles`: in force now."""

    id: str
    kind: Literal["user"]
    name: str
    issuer: str | None
    subject: str | None
    email: str | None
    groups: list[str]
    created_at: str
    signed_in_at: str | None
    disabled: bool
    roles: list[RoleInForce]


class UserChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch: what is left out stays. `disabled`: has no access, and cannot sign in."""

    disabled: bool | UnsetType = UNSET


class AccountQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "name"
    search: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in the name, in any case.")] | None = None


class SessionList(Struct, frozen=True):
    data: list[Session]


class SessionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    session: Annotated[str, Meta(max_length=100, description="End the session with this id alone.")] | None = None


class EndedSessions(Struct, frozen=True):
    """The number of sessions that have ended."""

    ended: int


# As lists of users and of service accounts print them.
ACCOUNT_COLUMNS = (
    Column("name"),
    Column("id"),
    Column("roles", form="roles"),
    Column("created_at", "CREATED", "time"),
    Column("disabled", "STATE", "state"),
)


async def _list(group_roles: GroupRoles, call: Call[AccountQuery, NoBody]) -> Answer:
    only, search = call.visible_teams(), call.query.search
    page = await accounts.page_accounts(call.connection, call.query, "user", group_roles, only=only, search=search)
    return Answer(Page([_to_user(call, account) for account in page.data], page.next))


async def _show(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await _find(group_roles, call)
    return Answer(_to_user(call, account), etag=_etag(account))


async def _patch(group_roles: GroupRoles, call: Call[NoQuery, UserChanges]) -> Answer:
    await lock_access(call.connection)
    account = await _find(group_roles, call)
    call.check_match(_etag(account))
    disabled = call.body.disabled
    if disabled is not UNSET and disabled != account.disabled:
        require_may_give(call, account.grants)
        await accounts.set_disabled(call.connection, call.author, account, disabled=disabled)
        await require_other_owner(call, group_roles)
    account = await _find(group_roles, call)
    return Answer(_to_user(call, account), etag=_etag(account))


async def _list_sessions(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await _find(group_roles, call)
    return Answer(SessionList(await tokens.list_sessions(call.connection, account.id)))


async def _end_sessions(group_roles: GroupRoles, call: Call[SessionQuery, NoBody]) -> Answer:
    account = await _find(group_roles, call)
    require_may_give(call, account.grants)
    ids = ids_to_end(call.query, await tokens.list_sessions(call.connection, account.id))
    ended = await tokens.end_sessions(call.connection, account.id, ids)
    if ended:
        await record(call.connection, call.author, AuditEvent("revoke", "session", account.name, {"sessions": ended}, {"sessions": 0}))
    return Answer(EndedSessions(ended))


def ids_to_end(query: SessionQuery, sessions: Sequence[Session]) -> list[str]:
    """The ids of all sessions, or of the one that the query names. Raises UnknownRecord if that is not among them."""
    if query.session is None:
        return [session.id for session in sessions]
    if not any(session.id == query.session.lower() for session in sessions):
        raise UnknownRecord(f"There is no session {query.session!r:.100} here that has not ended.")
    return [query.session.lower()]


async def _find(group_roles: GroupRoles, call: Call[Any, Any]) -> Account:
    """The user of an id or a name. One without a role in a team that the caller may see does not exist for them."""
    who = call.path["id"]
    by_id = {"id": who.lower()} if is_uuid7(who) else {"name": who}
    account = await accounts.find_account(call.connection, "user", group_roles, **by_id)
    if account is None or (call.visible_teams() is not None and not any(call.is_visible(role.team) for role in account.roles)):
        raise UnknownRecord(f"There is no user {who!r:.100}; GET /admin/v1/users lists them. {FIRST_SIGN_IN}")
    return account


def _to_user(call: Call[Any, Any], account: Account) -> User:
    shown = shown_roles(call, account)
    return User(
        shown.id,
        "user",
        shown.name,
        shown.issuer,
        shown.subject,
        shown.email,
        list(shown.groups),
        shown.created_at,
        shown.signed_in_at,
        shown.disabled,
        list(shown.roles),
    )


def _etag(account: Account) -> str:
    return etag_of([account.disabled])


def operations(group_roles: GroupRoles) -> list[Operation[Any, Any]]:
    tag = "Users"
    user_argument = {"{id}": Option(metavar="USER")}
    missing = {404: "There is no such user, or none with a role in a team of yours."}
    return [
        Operation(
            method="GET",
            path="/users",
            id="list_users",
            tag=tag,
            summary="List users",
            description="With a role in a team alone: the users with a role in that team.",
            permission="access:read",
            scope="team",
            query=AccountQuery,
            response=Page[User],
            commands=(
                Command(
                    summary="List users, with their roles in force.",
                    help='Of "roles", "team" is null for the whole company, "group" where it was given to the user, and "grant_id" where'
                    " it comes from NARTHEX_OIDC_GROUP_ROLES.",
                    examples=("users list", "users list --search ann"),
                    columns=ACCOUNT_COLUMNS,
                    nothing="No user has signed in yet.",
                    data="users",
                ),
            ),
            handler=partial(_list, group_roles),
        ),
        Operation(
            method="GET",
            path="/users/{id}",
            id="get_user",
            tag=tag,
            summary="Show a user",
            permission="access:read",
            scope="team",
            response=User,
            errors=missing,
            commands=(Command(examples=("users show ann@example.com",), options=user_argument, render="access.user"),),
            handler=partial(_show, group_roles),
        ),
        Operation(
            method="PATCH",
            path="/users/{id}",
            id="patch_user",
            tag=tag,
            summary="Disable or enable a user",
            description="A disabled user's sessions end at once. Only who may give all roles of a user may do this.",
            permission="access:write",
            access="write",
            body=UserChanges,
            response=User,
            conditional=True,
            errors={**missing, 409: "The company would have no owner."},
            example={"disabled": True},
            commands=(
                Command(
                    name="users disable",
                    summary="Disable a user: their sessions end, and they cannot sign in.",
                    help="",
                    examples=("users disable ann@example.com",),
                    options=user_argument,
                    fixed={"disabled": True},
                    only=("name", "disabled"),
                    done="{name} is disabled.",
                ),
                Command(
                    name="users enable",
                    summary="Enable a user again; they must sign in.",
                    help="",
                    examples=("users enable ann@example.com",),
                    options=user_argument,
                    fixed={"disabled": False},
                    only=("name", "disabled"),
                    done="{name} is enabled.",
                ),
            ),
            handler=partial(_patch, group_roles),
        ),
        Operation(
            method="GET",
            path="/users/{id}/sessions",
            id="list_sessions",
            tag=tag,
            summary="List where a user is signed in",
            permission="access:read",
            response=SessionList,
            errors=missing,
            commands=(Command(examples=("users sessions list ann@example.com",), options=user_argument, nothing="Nowhere."),),
            handler=partial(_list_sessions, group_roles),
        ),
        Operation(
            method="DELETE",
            path="/users/{id}/sessions",
            id="end_sessions",
            tag=tag,
            summary="Sign a user out everywhere, or end one session",
            permission="access:write",
            access="write",
            query=SessionQuery,
            response=EndedSessions,
            errors={404: "There is no such user, none with a role in a team of yours, or no such session."},
            commands=(
                Command(
                    examples=("users sessions end ann@example.com --yes",),
                    options=user_argument,
                    confirm="End sessions of {id}?",
                    done="Sessions that have ended: {ended}.",
                ),
            ),
            handler=partial(_end_sessions, group_roles),
        ),
    ]
