"""Teams: /admin/v1/teams and /admin/v1/teams/{name}."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.admin.access.caller_commands import LIST_TEAMS, SET_TEAM
from app.api.rest.access_rules import require_may_give
from app.api.rest.etags import etag_of
from app.api.rest.links import encode_segment
from app.api.rest.merge_patch import merge
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.replacement import check_read_only, replacement_type
from app.domain.callers import ContentPolicy, Detector, DroppableFields, Fallbacks, MaskConfig, TeamLimit
from app.store.access.grants import take_roles_in
from app.store.access.locking import lock_access
from app.store.access.roles import Grant
from app.store.keys.team_restrictions import FIELDS, MAX_LIMITS
from app.store.postgres.names import MAX_NAME_CHARACTERS, MAX_PRIORITY
from app.store.postgres.paging import After, Limit, Page
from app.store.teams import teams
from app.store.teams.teams import Team
from providers.canonical.errors import Conflict, UnknownRecord

TeamName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Priority = Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Where requests wait, the highest go first.")]
Content = Annotated[
    ContentPolicy,
    Meta(
        description="What is recorded of requests and responses: everything, everything but what the rules of `mask` find, only structure"
        " and numbers, or nothing."
    ),
]
Search = Annotated[bool, Meta(description="Whether the text of what is recorded from now on can be searched.")]
Mask = Annotated[MaskConfig, Meta(description="The rules of the content policy `masked`; by default all built-in detectors.")]


Drop = Annotated[
    DroppableFields,
    Meta(description='Fields that may be left out of its requests where a target cannot honour them: "all", or a list of names.'),
]
Models = Annotated[tuple[str, ...], Meta(description="Models that its keys may use; a * at the end stands for anything. Keys narrow it.")]
Routes = Annotated[tuple[str, ...], Meta(description="Routes that its keys may use. Keys narrow it.")]
Networks = Annotated[tuple[str, ...], Meta(description="Networks that its keys may be used from. Keys narrow it.")]
Limits = Annotated[tuple[TeamLimit, ...], Meta(max_length=MAX_LIMITS, description="What each of its keys is held to.")]
TeamFallbacks = Annotated[
    Fallbacks, Meta(description="Whether a model may fall back to any model, or to those alone that the key may use (allowed).")
]


class TeamSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set of a team; what is left out gets its default."""

    content: Content = "full"
    drop: Drop = ()
    priority: Priority = 0
    mask: Mask = MaskConfig()
    search: Search = False
    models: Models | None = None
    routes: Routes | None = None
    networks: Networks | None = None
    limits: Limits = ()
    fallbacks: TeamFallbacks = "any"


_Replacement = replacement_type(TeamSettings, Team)
_COUNTS = ("keys",)


class MaskChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch of `mask`: a pattern that is null is removed."""

    detectors: tuple[Detector, ...] | UnsetType | None = UNSET
    patterns: dict[str, str | None] | UnsetType | None = UNSET


class NewTeam(TeamSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A team to create."""

    name: TeamName


class TeamChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch: what is left out stays, null is the default."""

    content: Content | UnsetType | None = UNSET
    drop: Drop | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    mask: MaskChanges | UnsetType | None = UNSET
    search: Search | UnsetType | None = UNSET
    models: Models | UnsetType | None = UNSET
    routes: Routes | UnsetType | None = UNSET
    networks: Networks | UnsetType | None = UNSET
    limits: Limits | UnsetType | None = UNSET
    fallbacks: TeamFallbacks | UnsetType | None = UNSET


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


async def _create(call: Call[NoQuery, NewTeam]) -> Answer:
    body = call.body
    if await teams.find_team(call.connection, body.name, lock=True) is not None:
        raise Conflict(f"There is a team {body.name!r} already. PATCH /admin/v1/teams/{encode_segment(body.name)} changes it.")
    await _set(call, body.name, body)
    return _answer(await _reload(call, body.name), status=201)


async def _put(call: Call[NoQuery, TeamSettings]) -> Answer:
    name, body = call.path["name"], call.body
    before = await teams.find_team(call.connection, name, lock=True)
    call.check_match(before and _etag(before))
    current = {"name": name} if before is None else msgspec.to_builtins(before)
    check_read_only(body, TeamSettings, current, exists=before is not None, counts=_COUNTS)
    await _set(call, name, body)
    return _answer(await _reload(call, name), status=201 if before is None else 200)


async def _patch(call: Call[NoQuery, TeamChanges]) -> Answer:
    before = await _find(call, lock=True)
    call.check_match(_etag(before))
    defaults = TeamSettings()
    values = {
        field: getattr(defaults, field) if value is None else value
        for field in ("content", "drop", "priority", "search", *FIELDS)
        if (value := getattr(call.body, field)) is not UNSET
    }
    if isinstance(call.body.mask, MaskChanges):
        values["mask"] = msgspec.convert(merge(msgspec.to_builtins(before.mask), msgspec.to_builtins(call.body.mask)), MaskConfig)
    elif call.body.mask is None:
        values["mask"] = defaults.mask
    await _store(call, before.name, values)
    return _answer(await _reload(call, before.name))


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


async def _set(call: Call[Any, Any], name: str, settings: TeamSettings) -> None:
    await _store(call, name, {field: getattr(settings, field) for field in TeamSettings.__struct_fields__ if field != "name"})


async def _store(call: Call[Any, Any], name: str, values: Mapping[str, Any]) -> None:
    restrictions = {field: value for field, value in values.items() if field in FIELDS}
    others = {field: value for field, value in values.items() if field not in FIELDS}
    await teams.set_team(call.connection, name, **others, restrictions=restrictions, author=call.author)


async def _reload(call: Call[Any, Any], name: str) -> Team:
    row = await teams.find_team(call.connection, name)
    assert row is not None, "it was stored in this transaction"
    return row


def _answer(row: Team, status: int = 200) -> Answer:
    return Answer(row, etag=_etag(row), status=status)


def _etag(row: Team) -> str:
    return etag_of([row.content, row.drop, row.priority, row.mask, row.search, *(getattr(row, field) for field in FIELDS)])


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
            body=NewTeam,
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
            body=TeamChanges,
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
