"""Teams: /admin/v1/teams and /admin/v1/teams/{name}."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.admin.access.caller_commands import LIST_TEAMS, SET_TEAM
from app.api.rest.access_rules import require_may_give
from app.api.rest.etags import etag_of
from app.api.rest.links import encode_segment
from app.api.rest.merge_patch import merge, patch_type
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.replacement import check_read_only, replacement_type
from app.api.rest.settings_types import new_type, settings_type
from app.domain.callers import TeamConfig
from app.store.access.grants import take_roles_in
from app.store.access.locking import lock_access
from app.store.access.roles import Grant
from app.store.keys.team_columns import SETTINGS
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After, Limit, Page
from app.store.teams import teams
from app.store.teams.teams import Team
from providers.canonical.errors import Conflict, UnknownRecord

TeamName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
_TeamSettings = settings_type(TeamConfig, noun="team", nested=False)
_NewTeam = new_type(_TeamSettings, "team", name=TeamName)
_Replacement = replacement_type(_TeamSettings, Team)
_Changes = patch_type(_TeamSettings, "TeamChanges")
_COUNTS = ("keys",)


class TeamQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "name"
    search: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in the name, in any case.")] | None = None


class Deleted(Struct, frozen=True):
    """The team that was deleted."""

    name: str
    deleted: Literal[True] = True


async def _list(call: Call[TeamQuery, NoBody]) -> Answer:
    return Answer(await teams.page_teams(call.connection, call.query, only=call.visible_teams(), search=call.query.search))


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    return _answer(await _find(call))


async def _create(call: Call[NoQuery, Any]) -> Answer:
    name = call.body.name
    if await teams.find_team(call.connection, name, lock=True) is not None:
        raise Conflict(f"There is a team {name!r} already. PATCH /admin/v1/teams/{encode_segment(name)} changes it.")
    return await _set(call, name, call.body, status=201)


async def _put(call: Call[NoQuery, TeamConfig]) -> Answer:
    name, body = call.path["name"], call.body
    before = await teams.find_team(call.connection, name, lock=True)
    call.check_match(before and _etag(before))
    current = {"name": name} if before is None else msgspec.to_builtins(before)
    check_read_only(body, _TeamSettings, current, exists=before is not None, counts=_COUNTS)
    return await _set(call, name, body, status=201 if before is None else 200)


async def _patch(call: Call[NoQuery, Any]) -> Answer:
    before = await _find(call, lock=True)
    call.check_match(_etag(before))
    changes = msgspec.to_builtins(call.body)
    merged = merge(msgspec.to_builtins(before), changes)
    wanted = msgspec.convert({name: merged[name] for name in SETTINGS if name in merged}, _TeamSettings)
    return await _set(call, before.name, wanted, changes)


async def _delete(call: Call[NoQuery, NoBody]) -> Answer:
    await lock_access(call.connection)  # before the team, as whoever gives a role
    before = await _find(call, lock=True)
    call.check_match(_etag(before))
    taken = await take_roles_in(call.connection, call.author, before.name)
    require_may_give(call, [Grant(grant.role, grant.team) for grant in taken])
    if not await teams.delete_team(call.connection, before.name, author=call.author):
        raise Conflict("The team has or had keys, to which records and costs belong, so it stays. Revoke its keys instead.")
    return Answer(Deleted(before.name))


async def _find(call: Call[Any, Any], *, lock: bool = False) -> Team:
    """A team that the caller cannot see does not exist for them."""
    name = call.path["name"]
    row = await teams.find_team(call.connection, name, lock=lock)
    if row is None or not call.is_visible(row.name):
        raise UnknownRecord(f"There is no team {name!r:.200}. GET /admin/v1/teams lists them.")
    return row


async def _set(call: Call[Any, Any], name: str, settings: TeamConfig, only: Collection[str] = SETTINGS, status: int = 200) -> Answer:
    await teams.set_team(call.connection, name, author=call.author, **{field: getattr(settings, field) for field in only})
    row = await teams.find_team(call.connection, name)
    assert row is not None, "it was stored in this transaction"
    return _answer(row, status)


def _answer(row: Team, status: int = 200) -> Answer:
    return Answer(row, etag=_etag(row), status=status)


def _etag(row: Team) -> str:
    return etag_of([getattr(row, field) for field in SETTINGS])


def operations() -> list[Operation[Any, Any]]:
    tag = "Teams"
    name_missing = {404: "There is no such team, or it is not one of yours."}
    return [
        Operation(
            method="GET",
            path="/teams",
            id="list_teams",
            tag=tag,
            summary="List teams",
            permission="teams:read",
            scope="team",
            query=TeamQuery,
            response=Page[Team],
            commands=(LIST_TEAMS,),
            handler=_list,
        ),
        Operation(
            method="POST",
            path="/teams",
            id="create_team",
            tag=tag,
            summary="Create a team",
            permission="teams:write",
            access="write",
            body=_NewTeam,
            response=Team,
            status=201,
            errors={409: "There is a team of that name already."},
            example={"name": "search", "content": "redacted"},
            handler=_create,
        ),
        Operation(
            method="GET",
            path="/teams/{name}",
            id="get_team",
            tag=tag,
            summary="Show a team",
            permission="teams:read",
            scope="team",
            response=Team,
            errors=name_missing,
            handler=_show,
        ),
        Operation(
            method="PUT",
            path="/teams/{name}",
            id="put_team",
            tag=tag,
            summary="Create a team, or replace all of its settings",
            permission="teams:write",
            access="write",
            body=_Replacement,
            response=Team,
            conditional=True,
            errors={201: "The team was created."},
            example={"content": "masked", "priority": -50, "mask": {"patterns": {"employee_number": "E[0-9]{6}"}}},
            handler=_put,
        ),
        Operation(
            method="PATCH",
            path="/teams/{name}",
            id="patch_team",
            tag=tag,
            summary="Change settings of a team",
            permission="teams:write",
            access="write",
            body=_Changes,
            response=Team,
            conditional=True,
            errors=name_missing,
            example={"priority": 10},
            commands=(SET_TEAM,),
            handler=_patch,
        ),
        Operation(
            method="DELETE",
            path="/teams/{name}",
            id="delete_team",
            tag=tag,
            summary="Delete a team that never had a key",
            description="The roles within it are taken back, which whoever deletes it must be permitted to do.",
            permission="teams:write",
            access="write",
            response=Deleted,
            conditional=True,
            errors={**name_missing, 409: "The team has or had keys."},
            handler=_delete,
        ),
    ]
