"""Tokens of service accounts: /admin/v1/service-accounts/{name}/tokens and /admin/v1/service-accounts/{name}/tokens/{id}."""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.access.service_accounts import find_managed_account, find_service_account
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.store.access import tokens
from app.store.access.accounts import GroupRoles
from app.store.access.roles import only_team
from app.store.access.tokens import Token
from app.store.postgres.names import MAX_NAME_CHARACTERS
from providers.canonical.errors import UnknownRecord


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to create. `expires_at` left out or null: it does not expire."""

    name: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)] = ""
    expires_at: TimeText | None = None


class CreatedToken(Struct, frozen=True):
    """A new token of a service account. `token` is shown this once."""

    token: str
    id: str
    name: str
    created_at: str
    expires_at: str | None


class TokenList(Struct, frozen=True):
    data: list[Token]


async def _list_tokens(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await find_service_account(group_roles, call)
    return Answer(TokenList(await tokens.list_tokens(call.connection, account.id)))


async def _create_token(group_roles: GroupRoles, call: Call[NoQuery, NewToken]) -> Answer:
    account = await find_managed_account(group_roles, call)
    expires_at = None if call.body.expires_at is None else parse_time(call.body.expires_at, "expires_at")
    team, name = only_team(account.grants), call.body.name
    token, stored = await tokens.create_token(call.connection, call.author, account, name=name, expires_at=expires_at, team=team)
    return Answer(CreatedToken(token, stored.id, stored.name, stored.created_at, stored.expires_at))


async def _revoke_token(group_roles: GroupRoles, call: Call[NoQuery, NoBody]) -> Answer:
    account = await find_managed_account(group_roles, call)
    token = await tokens.find_token(call.connection, account.id, call.path["id"])
    if token is None:
        raise UnknownRecord(f"This service account has no token {call.path['id']!r:.100}.")
    await tokens.revoke_token(call.connection, call.author, account, token, team=only_team(account.grants))
    return Answer(await tokens.find_token(call.connection, account.id, token.id))


def operations(group_roles: GroupRoles) -> list[Operation[Any, Any]]:
    tag = "Service accounts"
    missing = {404: "There is no such service account, or none with a role in a team of yours."}
    path = "/service-accounts/{name}"
    account = {"{name}": Option(metavar="ACCOUNT")}
    return [
        Operation(
            method="GET",
            path=f"{path}/tokens",
            id="list_tokens",
            tag=tag,
            summary="List tokens of a service account, newest first",
            permission="access:read",
            scope="team",
            response=TokenList,
            errors=missing,
            commands=(
                Command(
                    summary="List tokens of a service account, newest first, with those that ended lately.",
                    options=account,
                    data="tokens",
                    render="access.tokens",
                ),
            ),
            handler=partial(_list_tokens, group_roles),
        ),
        Operation(
            method="POST",
            path=f"{path}/tokens",
            id="create_token",
            tag=tag,
            summary="Create a token, which is shown once",
            permission="access:write",
            scope="team",
            access="write",
            body=NewToken,
            body_is_optional=True,
            response=CreatedToken,
            status=201,
            secret_response=True,
            errors=missing,
            example={"name": "ci", "expires_at": "2030-01-31T00:00:00Z"},
            commands=(
                Command(
                    summary="Create a token of a service account. It is shown once and not stored.",
                    examples=(
                        "service-accounts tokens create terraform --name ci --expires 90d",
                        "service-accounts tokens create terraform --quiet > token",
                    ),
                    options={
                        **account,
                        "name": Option(flag="--name", help="A description for people."),
                        "expires_at": Option(flag="--expires", help="When it expires: 30d, 12h, 2026-12-31 or 2026-12-31T18:00Z."),
                    },
                    quiet="token",
                    render="access.created_token",
                ),
            ),
            handler=partial(_create_token, group_roles),
        ),
        Operation(
            method="DELETE",
            path=f"{path}/tokens/{{id}}",
            id="revoke_token",
            tag=tag,
            summary="Revoke a token",
            permission="access:write",
            scope="team",
            access="write",
            response=Token,
            errors={404: "There is no such service account or token."},
            commands=(
                Command(
                    summary="Revoke a token of a service account, for good.",
                    options=account,
                    confirm="Revoke this token of {name} for good?",
                    done="Revoked.",
                    shape="access.revoked",
                    json='{"revoked": id}',
                ),
            ),
            handler=partial(_revoke_token, group_roles),
        ),
    ]
