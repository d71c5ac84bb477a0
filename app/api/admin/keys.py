"""Keys over HTTP, for admin keys: /admin/v1/keys, /admin/v1/keys/{prefix} and /admin/v1/keys/{prefix}/rotate."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post
from litestar.params import Parameter
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.request_parsing import parse_admin_body, reject_unknown_parameters
from app.domain import ContentPolicy, DroppableFields
from app.store import keys
from app.store.errors import InvalidKeyField
from app.store.key_validation import parse_prefix
from app.store.keys import KeyChanges, KeyRow
from providers.canonical.errors import InvalidRequest, UnknownRoute


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /admin/v1/keys. `content` also sets how much of the team's requests and responses is recorded."""

    team: str
    name: str = ""
    admin: bool = False
    content: ContentPolicy | None = None
    models: Sequence[str] | None = None
    routes: Sequence[str] | None = None
    networks: Sequence[str] | None = None
    expires_at: datetime | None = None
    drop: DroppableFields | None = None
    priority: int | None = None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /admin/v1/keys/{prefix}/rotate: how long the old key keeps working."""

    overlap_s: float


def routes(database: AsyncEngine) -> Router:
    @get("/keys")
    async def list_keys(
        request: Request[Any, Any, Any],
        team: str | None = None,
        limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
        after: str | None = None,
    ) -> dict[str, Any]:
        reject_unknown_parameters(request, ("team", "limit", "after"))
        if after is not None and parse_prefix(after) is None:
            raise InvalidRequest(f"`after` must be the public part of a key, not {after!r:.60}.", param="after")
        rows = await keys.list_keys(database, team=team, after=after, limit=limit)
        return {"data": [_row_to_json(row) for row in rows], "next": f"nx-{rows[-1].prefix}" if len(rows) == limit else None}

    @post("/keys")
    async def create_key(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        body = parse_admin_body(await request.body(), NewKey)
        try:
            key = await keys.create_key(
                database,
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
            )
        except InvalidKeyField as fault:
            raise InvalidRequest(str(fault), param=fault.field) from None
        return await _created_response(key)

    @get("/keys/{prefix:str}")
    async def show_key(prefix: str) -> dict[str, Any]:
        return await _find_row(prefix)

    @patch("/keys/{prefix:str}")
    async def change_key(request: Request[Any, Any, Any], prefix: str) -> dict[str, Any]:
        changes = parse_admin_body(await request.body(), KeyChanges)
        try:
            changed = await keys.change_key(database, prefix, changes)
        except InvalidKeyField as fault:
            raise InvalidRequest(str(fault), param=fault.field) from None
        if not changed:
            raise _not_found(prefix)
        return await _find_row(prefix)

    @delete("/keys/{prefix:str}", status_code=200)
    async def revoke_key(prefix: str) -> dict[str, Any]:
        if not await keys.revoke_key(database, prefix):
            raise _not_found(prefix)
        return await _find_row(prefix)

    @post("/keys/{prefix:str}/rotate")
    async def rotate_key(request: Request[Any, Any, Any], prefix: str) -> Response[dict[str, Any]]:
        rotation = parse_admin_body(await request.body(), Rotation)
        try:
            key = await keys.rotate_key(database, prefix, overlap_s=rotation.overlap_s)
        except InvalidKeyField as fault:
            raise InvalidRequest(str(fault), param=fault.field) from None
        if key is None:
            raise _not_found(prefix)
        return await _created_response(key)

    async def _created_response(key: str) -> Response[dict[str, Any]]:
        return Response({"key": key, **await _find_row(key)}, status_code=201, headers={"cache-control": "no-store"})

    async def _find_row(prefix: str) -> dict[str, Any]:
        row = await keys.show_key(database, prefix)
        if row is None:
            raise UnknownRoute(f"There is no key {_printable_prefix(prefix)}. GET /admin/v1/keys lists the keys.")
        return _row_to_json(row)

    return Router("/", route_handlers=[list_keys, create_key, show_key, change_key, revoke_key, rotate_key])


def _not_found(prefix: str) -> UnknownRoute:
    return UnknownRoute(f"There is no valid key {_printable_prefix(prefix)}: it is unknown, revoked or expired.")


def _printable_prefix(prefix: str) -> str:
    """The public part, for a message: the caller may have sent the complete key, which must not be repeated."""
    part = parse_prefix(prefix)
    return f"nx-{part}" if part else "of that name"


def _row_to_json(row: KeyRow) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    return {**fields, "prefix": f"nx-{row.prefix}", "replaced_by": row.replaced_by and f"nx-{row.replaced_by}"}
