"""Keys: /admin/v1/keys, /admin/v1/keys/{prefix} and /admin/v1/keys/{prefix}/rotate."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from app.api.admin.access.caller_commands import CHANGE_KEY, CREATE_KEY, LIST_KEYS, REVOKE_KEY, ROTATE_KEY
from app.api.admin.access.key_records import CreatedKey, Key, KeyQuery, ListedKey, NewKey, Rotation, read_usage, to_key
from app.api.rest.etags import etag_of
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import parse_time
from app.store.configuration.rows import lock_configuration
from app.store.keys.key_format import parse_prefix
from app.store.keys.rows import lock_changes
from app.store.postgres.paging import Page
from app.store.teams import keys, shown_keys
from app.store.teams.key_limits import MAX_LIMITS_OF_TEAM, add_key_limits, count_limits_of_keys, read_key_limits
from app.store.teams.keys import KeyChanges, KeyReplaced
from app.store.teams.shown_keys import KeyFilter, KeyRow
from app.store.teams.teams import show_team
from providers.canonical.errors import Conflict, NotAllowed, UnknownRecord

_EDITABLE = ("name", "models", "routes", "networks", "expires_at", "drop", "priority")


class KeyOperations:
    """The operations of keys. `output_tokens` is the setting for models without one of their own, for warnings."""

    def __init__(self, output_tokens: int) -> None:
        self._output_tokens = output_tokens

    async def list(self, call: Call[KeyQuery, NoBody]) -> Answer:
        query = call.query
        expires_before = query.expires_before and parse_time(query.expires_before, "expires_before")
        unused_since = query.unused_since and parse_time(query.unused_since, "unused_since")
        teams = call.visible_teams()
        if unused_since and (read := call.visible_teams("records:read")) is not None:  # it tells what was recorded
            teams = read if teams is None else teams & read
        filters = KeyFilter(query.team, teams, query.admin, query.state, query.search, expires_before or None, unused_since or None)
        page = await shown_keys.page_keys(call.connection, query, filters)
        limits = await read_key_limits(call.connection, [row.prefix for row in page.data])
        usage = {} if query.usage_days is None else await read_usage(call, page.data, query.usage_days)
        shown = [ListedKey(**asdict(to_key(row, limits.get(row.prefix, ()))), usage=usage.get(row.id)) for row in page.data]
        return Answer(Page(shown, page.next))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return await _answer(call, await find_key(call))

    async def create(self, call: Call[NoQuery, NewKey]) -> Answer:
        body = call.body
        call.require("keys:write", body.team)
        if body.admin:
            call.require("admin_keys:write")
        if body.content is not None:
            call.require("teams:write")
        await _check_priority(call, body.team, body.priority)
        if any(limit.name is not None for limit in body.limits) and not call.principal.may("config:write"):
            # Names are of the whole configuration: that one is taken would tell what others have.
            raise NotAllowed("Leave out `name` in `limits`: your role does not include 'config:write'. The limits get names of their own.")
        limits = [*body.limits, *(() if body.budget is None else (body.budget.to_limit(),))]
        if limits:
            await lock_configuration(call.connection)  # before the keys, as everywhere
            await _check_limits_of_team(call, body.team, len(limits))
        key = await keys.create_key(
            call.connection,
            body.team,
            name=body.name,
            admin=body.admin,
            content=body.content,
            models=body.models,
            routes=body.routes,
            networks=body.networks,
            expires_at=body.expires_at,
            drop=body.drop or (),
            priority=body.priority,
            author=call.author,
        )
        warnings: Sequence[str] = ()
        if limits:
            row, lists_models = await _reload(call, key), call.principal.may("config:write")
            changed = await add_key_limits(
                call.connection, call.author, row, limits, lists_models=lists_models, output_tokens=self._output_tokens
            )
            warnings = changed.warnings
        return await _answer(call, await _reload(call, key), created=key, warnings=warnings)

    async def patch(self, call: Call[NoQuery, KeyChanges]) -> Answer:
        await lock_changes(call.connection)
        before = await _find_to_change(call)
        call.check_match(_etag(before))
        if isinstance(call.body.priority, int):
            await _check_priority(call, before.team, call.body.priority)
        if not await keys.change_key(call.connection, before.prefix, call.body, author=call.author):
            raise _not_valid(before.prefix)
        return await _answer(call, await _reload(call, before.prefix))

    async def revoke(self, call: Call[NoQuery, NoBody]) -> Answer:
        before = await _find_to_change(call)
        if not await keys.revoke_key(call.connection, before.prefix, author=call.author):
            raise _not_valid(before.prefix)
        return await _answer(call, await _reload(call, before.prefix))

    async def rotate(self, call: Call[NoQuery, Rotation]) -> Answer:
        before = await _find_to_change(call)
        try:
            key = await keys.rotate_key(call.connection, before.prefix, overlap_s=call.body.overlap_s, author=call.author)
        except KeyReplaced as fault:
            raise Conflict(str(fault)) from None
        if key is None:
            raise _not_valid(before.prefix)
        return await _answer(call, await _reload(call, key), created=key)


async def find_key(call: Call[Any, Any]) -> KeyRow:
    """A key that the caller cannot see does not exist for them."""
    row = await shown_keys.show_key(call.connection, call.path["prefix"])
    if row is None or not call.is_visible(row.team, "keys:read"):
        raise UnknownRecord(f"There is no key {_printable_prefix(call.path['prefix'])}. GET /admin/v1/keys lists the keys.")
    return row


async def _find_to_change(call: Call[Any, Any]) -> KeyRow:
    row = await find_key(call)
    call.require("keys:write", row.team)
    if row.admin:
        call.require("admin_keys:write")
    return row


async def _reload(call: Call[Any, Any], key: str) -> KeyRow:
    row = await shown_keys.show_key(call.connection, key)
    assert row is not None, "it was stored in this transaction"
    return row


async def _check_limits_of_team(call: Call[Any, Any], team: str, added: int) -> None:
    """The configuration is everybody's: who may not write it may not fill it either."""
    if not call.principal.may("config:write") and await count_limits_of_keys(call.connection, team) + added > MAX_LIMITS_OF_TEAM:
        raise NotAllowed(
            f"The keys of team {team!r:.100} have {MAX_LIMITS_OF_TEAM} limits of their own, or nearly so many, which is the most that roles"
            " within a team make. Whoever has 'config:write' can add more, or delete those of keys that are no longer used."
        )


async def _check_priority(call: Call[Any, Any], team: str, priority: int | None) -> None:
    """Whoever may not change the weight of teams against each other may put a key behind its team, and not ahead of it."""
    if priority is not None and not call.principal.may("teams:write"):
        config = await show_team(call.connection, team)
        if config is None or priority > config.priority:
            call.require("teams:write")


async def _answer(call: Call[Any, Any], row: KeyRow, *, created: str | None = None, warnings: Sequence[str] = ()) -> Answer:
    key = to_key(row, (await read_key_limits(call.connection, [row.prefix])).get(row.prefix, ()))
    if created is None:
        return Answer(key, etag=_etag(row))
    made = CreatedKey(key=created, warnings=list(warnings) or UNSET, **msgspec.structs.asdict(key))
    return Answer(made, etag=_etag(row), status=201, warnings=warnings)


def _etag(row: KeyRow) -> str:
    return etag_of([getattr(row, field) for field in _EDITABLE])


def _not_valid(prefix: str) -> UnknownRecord:
    return UnknownRecord(f"No valid key begins with 'nx-{prefix}': it is revoked or expired. GET /admin/v1/keys lists the valid ones.")


def _printable_prefix(prefix: str) -> str:
    """The public part, for a message: the caller may have sent the complete key, which must not be repeated."""
    part = parse_prefix(prefix)
    return f"nx-{part}" if part else "of that name"


def operations(output_tokens: int) -> list[Operation[Any, Any]]:
    tag = "Keys"
    handlers = KeyOperations(output_tokens)
    missing = {404: "There is no such key, or it is not of one of your teams."}
    not_valid = {404: "There is no such key, it is revoked or expired, or it is not of one of your teams."}
    return [
        Operation(
            method="GET",
            path="/keys",
            id="list_keys",
            tag=tag,
            summary="List keys",
            permission="keys:read",
            scope="team",
            query=KeyQuery,
            response=Page[ListedKey],
            commands=(LIST_KEYS,),
            handler=handlers.list,
        ),
        Operation(
            method="POST",
            path="/keys",
            id="create_key",
            tag=tag,
            summary="Create a key, and its team if that is new",
            description="The key is in `key`, once. `limits` and `budget` become limits of the configuration for this key alone.",
            permission="keys:write",
            scope="team",
            access="write",
            body=NewKey,
            response=CreatedKey,
            status=201,
            secret_response=True,
            errors={409: "The team has as many valid keys as it may have."},
            example={"team": "search", "name": "nightly", "models": ["sandbox*"], "budget": {"amount_usd": 50}},
            commands=(CREATE_KEY,),
            handler=handlers.create,
        ),
        Operation(
            method="GET",
            path="/keys/{prefix}",
            id="get_key",
            tag=tag,
            summary="Show a key, by its public part",
            permission="keys:read",
            scope="team",
            response=Key,
            errors=missing,
            handler=handlers.show,
        ),
        Operation(
            method="PATCH",
            path="/keys/{prefix}",
            id="patch_key",
            tag=tag,
            summary="Change a key's name, restrictions, expiry, drop or priority",
            permission="keys:write",
            scope="team",
            access="write",
            body=KeyChanges,
            response=Key,
            conditional=True,
            errors=not_valid,
            example={"models": ["sandbox*"], "expires_at": None},
            commands=(CHANGE_KEY,),
            handler=handlers.patch,
        ),
        Operation(
            method="DELETE",
            path="/keys/{prefix}",
            id="revoke_key",
            tag=tag,
            summary="Revoke a key, for good",
            permission="keys:write",
            scope="team",
            access="write",
            response=Key,
            errors=not_valid,
            commands=(REVOKE_KEY,),
            handler=handlers.revoke,
        ),
        Operation(
            method="POST",
            path="/keys/{prefix}/rotate",
            id="rotate_key",
            tag=tag,
            summary="Replace a key with a new one",
            description="The new key has the restrictions of the old one, which expires after the overlap, if not before. Limits count both"
            " as one key.",
            permission="keys:write",
            scope="team",
            access="write",
            body=Rotation,
            response=CreatedKey,
            status=201,
            secret_response=True,
            errors={**not_valid, 409: "It was rotated already, to a key that is valid."},
            example={"overlap_s": 3600},
            commands=(ROTATE_KEY,),
            handler=handlers.rotate,
        ),
    ]
