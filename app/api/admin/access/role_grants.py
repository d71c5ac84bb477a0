"""Roles given to users, service accounts and groups: /admin/v1/role-grants."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.access.users import FIRST_SIGN_IN
from app.api.rest.access_rules import manages, require_may_give, require_other_owner
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.uuid7 import is_uuid7
from app.store.access import accounts, grants
from app.store.access.accounts import Account, AccountKind, GroupRoles
from app.store.access.grants import MAX_GRANTS, ReceiverKind, RoleGrant
from app.store.access.locking import lock_access
from app.store.access.roles import Grant, Role
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownRecord

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]


_RECEIVERS: tuple[ReceiverKind, ...] = ("user", "service_account", "group")
_RECEIVER_OPTIONS = {
    "user": Option(help="The user with this name or id."),
    "service_account": Option(help="The service account of this name."),
    "group": Option(help="The group of this name, as the issuer of sign-ins names it."),
    "team": Option(help="Within this team only, not for the whole company."),
}


class NewGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """A role to give to one of `user`, `service_account` and `group`. `team` left out or null: for the whole company.

    `user`: the id, or the name. Names come from the issuer, and ids never change.
    """

    role: Role
    team: Name | None = None
    user: Name | None = None
    service_account: Name | None = None
    group: Name | None = None


class GrantQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "created_at"
    team: Name | None = None
    role: Role | None = None
    user: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="The name or id of a user.")] | None = None
    service_account: Name | None = None
    group: Name | None = None


class GivenRole(Struct, frozen=True, forbid_unknown_fields=True):
    """The role to take back. `team` left out: the role for the whole company."""

    role: Role
    team: Name | None = None
    user: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="The name or id of a user.")] | None = None
    service_account: Name | None = None
    group: Name | None = None


class TakenGrant(Struct, frozen=True):
    """The role that was taken back."""

    id: str
    deleted: Literal[True] = True


async def _list(call: Call[GrantQuery, NoBody]) -> Answer:
    query = call.query
    named = _receivers(query)
    if len(named) > 1:
        raise InvalidRequest("Filter by one of `user`, `service_account` and `group`.", param=named[1][0])
    receiver = named[0] if named else None
    only = call.visible_teams()
    page = await grants.page_grants(call.connection, query, only=only, team=query.team, role=query.role, receiver=receiver)
    return Answer(page)


async def _give(group_roles: GroupRoles, call: Call[NoQuery, NewGrant]) -> Answer:
    body = call.body
    named = _receivers(body)
    if len(named) != 1:
        raise InvalidRequest("A role is given to one of `user`, `service_account` and `group`: name exactly one.", param="user")
    grant = Grant(body.role, body.team)
    call.require("access:write", body.team)
    require_may_give(call, [grant])
    await lock_access(call.connection)
    kind, name = named[0]
    if kind == "group":
        stored, is_new = await grants.give_role(call.connection, call.author, grant, group=name)
    else:
        account = await _find_account(group_roles, call, kind, name)
        stored, is_new = await grants.give_role(call.connection, call.author, grant, account_id=account.id)
    return Answer(stored, status=201 if is_new else 200)


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer(await _find(call))


async def _take(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    await lock_access(call.connection)
    grant = await _find(call)
    call.require("access:write", grant.team)
    await _take_back(group_roles, call, grant)
    return Answer(TakenGrant(grant.id))


async def _take_given(group_roles: GroupRoles, call: Call[GivenRole, NoBody]) -> Answer:
    query = call.query
    named = _receivers(query)
    if len(named) != 1:
        raise InvalidRequest("A role is taken from one of `user`, `service_account` and `group`: name exactly one.", param="user")
    call.require("access:write", query.team)
    await lock_access(call.connection)
    page = await grants.page_grants(
        call.connection, GrantQuery(MAX_GRANTS), only=call.visible_teams(), team=query.team, role=query.role, receiver=named[0]
    )
    grant = next((each for each in page.data if each.team == query.team), None)
    if grant is None:
        within = "the whole company" if query.team is None else f"team {query.team}"
        raise UnknownRecord(
            f"{named[0][1]!r:.100} was not given the role {query.role} of {within:.100}; GET /admin/v1/role-grants lists what was."
        )
    await _take_back(group_roles, call, grant)
    return Answer(grant)


async def _take_back(group_roles: GroupRoles, call: Call[Any, Any], grant: RoleGrant) -> None:
    require_may_give(call, [Grant(grant.role, grant.team)])
    await grants.take_role(call.connection, call.author, grant)
    if grant.role == "owner" and grant.team is None:
        await require_other_owner(call, group_roles)


async def _find(call: Call[Any, Any]) -> RoleGrant:
    grant = await grants.find_grant(call.connection, call.path["id"])
    if grant is None or not call.is_visible(grant.team):
        raise UnknownRecord(f"There is no role grant {call.path['id']!r:.100}. GET /admin/v1/role-grants lists them.")
    return grant


async def _find_account(group_roles: GroupRoles, call: Call[Any, Any], kind: AccountKind, name: str) -> Account:
    by_id = kind == "user" and is_uuid7(name)
    found = await accounts.find_account(call.connection, kind, group_roles, id=name if by_id else None, name=None if by_id else name)
    if kind == "service_account" and call.visible_teams() is not None and (found is None or not manages(call, found)):
        # Whoever gives it a role in their team could then create tokens for it, and use these with roles that others give.
        raise NotAllowed(
            f"There is no service account {name!r:.100} whose roles are all in your teams. Others, if there are any, are for admins and"
            " owners of the company to change."
        )
    if found is None:
        first = f" {FIRST_SIGN_IN}" if kind == "user" else ""
        raise InvalidRequest(f"There is no {kind.replace('_', ' ')} {name!r:.100}.{first}", param=kind)
    return found


def _receivers(body: NewGrant | GrantQuery | GivenRole) -> list[tuple[ReceiverKind, str]]:
    return [(kind, value) for kind in _RECEIVERS if (value := getattr(body, kind)) is not None]


def operations(group_roles: GroupRoles) -> list[Operation[Any, Any]]:
    tag = "Roles"
    missing = {404: "There is no such grant, or it is not of a team of yours."}
    return [
        Operation(
            method="GET",
            path="/role-grants",
            id="list_role_grants",
            tag=tag,
            summary="List the roles that were given",
            description="Without the roles of groups in the setting NARTHEX_OIDC_GROUP_ROLES, which a user's `roles` include.",
            permission="access:read",
            scope="team",
            query=GrantQuery,
            response=Page[RoleGrant],
            commands=(
                Command(
                    name="roles list",
                    summary="List the roles that were given, the oldest first; those in NARTHEX_OIDC_GROUP_ROLES are not among them.",
                    help='"team" is null for the whole company; one of "user", "service_account" and "group" is set.',
                    examples=("roles list", "roles list --team search", "roles list --user ann@example.com"),
                    one_of=_RECEIVERS,
                    data="roles",
                    render="access.role_grants",
                ),
            ),
            handler=_list,
        ),
        Operation(
            method="POST",
            path="/role-grants",
            id="create_role_grant",
            tag=tag,
            summary="Give a role",
            description="Nobody gives a role with permissions that they do not have, and only owners make owners.",
            permission="access:write",
            scope="team",
            access="write",
            body=NewGrant,
            response=RoleGrant,
            status=201,
            errors={200: "The role was given already."},
            example={"role": "viewer", "group": "finance"},
            commands=(
                Command(
                    name="roles grant",
                    summary="Give ROLE to a user, a service account or a group.",
                    examples=("roles grant owner --user ann@example.com", "roles grant viewer --team search --group engineers"),
                    options={"role": Option(is_argument=True), **_RECEIVER_OPTIONS},
                    one_of=_RECEIVERS,
                    needs_one=True,
                    render="access.given_role",
                ),
            ),
            handler=partial(_give, group_roles),
        ),
        Operation(
            method="GET",
            path="/role-grants/{id}",
            id="get_role_grant",
            tag=tag,
            summary="Show a role that was given",
            permission="access:read",
            scope="team",
            response=RoleGrant,
            errors=missing,
            commands=(Command(name="roles show"),),
            handler=_show,
        ),
        Operation(
            method="DELETE",
            path="/role-grants/{id}",
            id="delete_role_grant",
            tag=tag,
            summary="Take a role back",
            permission="access:write",
            scope="team",
            access="write",
            response=TakenGrant,
            errors={**missing, 409: "The company would have no owner."},
            commands=(),
            handler=partial(_take, group_roles),
        ),
        Operation(
            method="DELETE",
            path="/role-grants",
            id="take_role",
            tag=tag,
            summary="Take a role back from whom it was given to",
            permission="access:write",
            scope="team",
            access="write",
            query=GivenRole,
            response=RoleGrant,
            errors={404: "There is no such grant, or it is not of a team of yours.", 409: "The company would have no owner."},
            commands=(
                Command(
                    name="roles revoke",
                    summary="Take ROLE back from a user, a service account or a group.",
                    examples=("roles revoke owner --user ann@example.com", "roles revoke viewer --team search --group engineers"),
                    options={"role": Option(is_argument=True), **_RECEIVER_OPTIONS},
                    one_of=_RECEIVERS,
                    needs_one=True,
                    asks=False,
                    render="access.taken_role",
                    shape="access.revoked",
                    json='{"revoked": id}',
                ),
            ),
            handler=partial(_take_given, group_roles),
        ),
    ]
