"""Service accounts, for programs: /admin/v1/service-accounts and /admin/v1/service-accounts/{name}."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.admin.access.users import ACCOUNT_COLUMNS, AccountQuery
from app.api.rest.access_rules import manages, require_may_give, require_other_owner, shown_roles
from app.api.rest.command import Command, Option
from app.api.rest.etags import etag_of
from app.api.rest.links import encode_segment
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.access import accounts, grants
from app.store.access.accounts import Account, GroupRoles, RoleInForce
from app.store.access.locking import lock_access
from app.store.access.roles import Grant, Role, only_team
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import Page
from providers.canonical.errors import Conflict, NotAllowed, UnknownRecord

_MAX_FIRST_ROLES = 50

AccountName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]


class RoleToGive(Struct, frozen=True, forbid_unknown_fields=True):
    """A role to give. `team` left out or null: for the whole company."""

    role: Role
    team: str | None = None


class NewServiceAccount(Struct, frozen=True, forbid_unknown_fields=True):
    """A service account to create. Without roles it may do nothing yet."""

    name: AccountName
    roles: Annotated[list[RoleToGive], Meta(max_length=_MAX_FIRST_ROLES)] = []


class ServiceAccountChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch: what is left out stays. The tokens of a disabled account are refused until it is enabled again."""

    disabled: bool | UnsetType = UNSET


class ServiceAccount(Struct, frozen=True):
    """A service account, with its roles in force."""

    id: str
    name: str
    created_at: str
    disabled: bool
    roles: list[RoleInForce]


class DeletedAccount(Struct, frozen=True):
    """The service account that was deleted."""

    name: str
    deleted: Literal[True] = True


async def _list(group_roles: GroupRoles, call: Call[AccountQuery, NoBody]) -> Answer:
    only, search = call.visible_teams(), call.query.search
    page = await accounts.page_accounts(call.connection, call.query, "service_account", group_roles, only=only, search=search)
    return Answer(Page([_to_service_account(call, account) for account in page.data], page.next))


async def _show(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await find_service_account(group_roles, call)
    return Answer(_to_service_account(call, account), etag=_etag(account))


async def _create(group_roles: GroupRoles, call: Call[NoQuery, NewServiceAccount]) -> Answer:
    name, roles = call.body.name, [Grant(each.role, each.team) for each in call.body.roles]
    if call.visible_teams() is not None and not roles:
        raise NotAllowed("Give it at least one role in a team of yours: service accounts without roles are for roles of the whole company.")
    require_may_give(call, roles)
    _check_prefix(call, name)
    id = await accounts.create_service_account(call.connection, call.author, name, team=only_team(roles))
    if id is None:
        raise Conflict(f"There is a service account {name!r} already. GET /admin/v1/service-accounts/{encode_segment(name)} shows it.")
    for role in roles:
        await grants.give_role(call.connection, call.author, role, account_id=id)
    account = await accounts.find_account(call.connection, "service_account", group_roles, id=id)
    assert account is not None, "it was stored in this transaction"
    return Answer(_to_service_account(call, account), etag=_etag(account))


async def _patch(group_roles: GroupRoles, call: Call[NoQuery, ServiceAccountChanges]) -> Answer:
    account = await find_managed_account(group_roles, call)
    call.check_match(_etag(account))
    disabled = call.body.disabled
    if disabled is not UNSET and disabled != account.disabled:
        team = only_team(account.grants)
        await accounts.set_disabled(call.connection, call.author, account, disabled=disabled, team=team)
        await require_other_owner(call, group_roles)
    account = await find_service_account(group_roles, call)
    return Answer(_to_service_account(call, account), etag=_etag(account))


async def _delete(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await find_managed_account(group_roles, call)
    call.check_match(_etag(account))
    await accounts.delete_account(call.connection, call.author, account, team=only_team(account.grants))
    await require_other_owner(call, group_roles)
    return Answer(DeletedAccount(account.name))


async def find_service_account(group_roles: GroupRoles, call: Call[Any, Any]) -> Account:
    """A service account without a role in a team that the caller may see does not exist for them."""
    name = call.path["name"]
    account = await accounts.find_account(call.connection, "service_account", group_roles, name=name)
    if account is None or (call.visible_teams() is not None and not any(call.is_visible(role.team) for role in account.roles)):
        raise UnknownRecord(f"There is no service account {name!r:.200}. GET /admin/v1/service-accounts lists them.")
    return account


async def find_managed_account(group_roles: GroupRoles, call: Call[Any, Any]) -> Account:
    """An account that the caller may change, locked: whoever has its tokens has its roles."""
    await lock_access(call.connection)
    account = await find_service_account(group_roles, call)
    if not manages(call, account):
        raise NotAllowed("This service account has roles outside of your teams, or none: only admins and owners of the company change it.")
    require_may_give(call, account.grants)
    return account


def _check_prefix(call: Call[Any, Any], name: str) -> None:
    """Names are of the whole company: a free choice would tell which ones other teams have, and could take them away."""
    teams = call.visible_teams()
    if teams is not None and name.rpartition("/")[0] not in teams:
        example = f"{min(teams)}/{name.rpartition('/')[2]}"
        raise NotAllowed(f"Begin the name with a team of yours, such as {example!r:.200}: other names are the company's.")


def _to_service_account(call: Call[Any, Any], account: Account) -> ServiceAccount:
    return ServiceAccount(account.id, account.name, account.created_at, account.disabled, list(shown_roles(call, account).roles))


def _etag(account: Account) -> str:
    return etag_of([account.disabled])


def operations(group_roles: GroupRoles) -> list[Operation[Any, Any]]:
    tag = "Service accounts"
    missing = {404: "There is no such service account, or none with a role in a team of yours."}
    without_owner = {409: "The company would have no owner."}
    path = "/service-accounts/{name}"
    return [
        Operation(
            method="GET",
            path="/service-accounts",
            id="list_service_accounts",
            tag=tag,
            summary="List service accounts",
            permission="access:read",
            scope="team",
            query=AccountQuery,
            response=Page[ServiceAccount],
            commands=(
                Command(
                    summary="List service accounts, with their roles.",
                    examples=("service-accounts list", "service-accounts list --search terraform"),
                    columns=ACCOUNT_COLUMNS,
                    nothing="There is none yet; `narthex service-accounts create NAME` creates one.",
                    data="service_accounts",
                    shape="access.accounts_shape",
                ),
            ),
            handler=partial(_list, group_roles),
        ),
        Operation(
            method="POST",
            path="/service-accounts",
            id="create_service_account",
            tag=tag,
            summary="Create a service account",
            description="With roles in a team alone: name it TEAM/NAME, and give it roles in that team.",
            permission="access:write",
            scope="team",
            access="write",
            body=NewServiceAccount,
            response=ServiceAccount,
            status=201,
            errors={409: "There is a service account of that name already, or as many as there may be."},
            example={"name": "terraform", "roles": [{"role": "editor"}]},
            commands=(
                Command(
                    help="Without --role it may do nothing until `narthex roles grant` gives it a role.",
                    examples=(
                        "service-accounts create terraform --role editor",
                        "service-accounts create search/nightly --role viewer --team search",
                    ),
                    inline=("roles",),
                    options={
                        "roles.role": Option(help="Give it this role."),
                        "roles.team": Option(help="Give it the role within this team only, not for the whole company."),
                    },
                    render="access.created_account",
                    shape="access.account_shape",
                ),
            ),
            handler=partial(_create, group_roles),
        ),
        Operation(
            method="GET",
            path=path,
            id="get_service_account",
            tag=tag,
            summary="Show a service account",
            permission="access:read",
            scope="team",
            response=ServiceAccount,
            errors=missing,
            commands=(Command(columns=ACCOUNT_COLUMNS, shape="access.account_shape"),),
            handler=partial(_show, group_roles),
        ),
        Operation(
            method="PATCH",
            path=path,
            id="patch_service_account",
            tag=tag,
            summary="Disable or enable a service account",
            permission="access:write",
            scope="team",
            access="write",
            body=ServiceAccountChanges,
            response=ServiceAccount,
            conditional=True,
            errors={**missing, **without_owner},
            example={"disabled": True},
            commands=(
                Command(
                    name="service-accounts disable",
                    summary="Disable a service account: its tokens are refused.",
                    examples=("service-accounts disable terraform",),
                    fixed={"disabled": True},
                    only=("name", "disabled"),
                    done="{name} is disabled.",
                ),
                Command(
                    name="service-accounts enable",
                    summary="Enable a service account again, with the tokens that it has.",
                    examples=("service-accounts enable terraform",),
                    fixed={"disabled": False},
                    only=("name", "disabled"),
                    done="{name} is enabled.",
                ),
            ),
            handler=partial(_patch, group_roles),
        ),
        Operation(
            method="DELETE",
            path=path,
            id="delete_service_account",
            tag=tag,
            summary="Delete a service account with its tokens and roles",
            permission="access:write",
            scope="team",
            access="write",
            response=DeletedAccount,
            conditional=True,
            errors={**missing, **without_owner},
            commands=(
                Command(
                    summary="Delete a service account, with its tokens and roles.",
                    confirm="Delete {name}, with its tokens and roles?",
                    done="Deleted.",
                    shape="access.deleted_account",
                    json='{"deleted": name}',
                ),
            ),
            handler=partial(_delete, group_roles),
        ),
    ]
