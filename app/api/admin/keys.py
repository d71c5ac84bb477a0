"""Keys over HTTP, for admin keys: /admin/v1/keys, /admin/v1/keys/{prefix} and /admin/v1/keys/{prefix}/rotate."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post
from litestar.params import Parameter
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.admin.body import only, read
from app.domain import ContentPolicy
from app.store import keys
from app.store.key_terms import BadKey, public_part
from app.store.keys import KeyChanges, KeyRow
from providers.errors import Malformed, UnknownRoute


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /admin/v1/keys. `content` also sets what is kept of the team's asks."""

    team: str
    name: str = ""
    admin: bool = False
    content: ContentPolicy | None = None
    models: Sequence[str] | None = None
    routes: Sequence[str] | None = None
    networks: Sequence[str] | None = None
    expires_at: datetime | None = None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /admin/v1/keys/{prefix}/rotate: how long the old key goes on working."""

    overlap_s: float


def routes(database: AsyncEngine) -> Router:
    @get("/keys")
    async def list_keys(
        request: Request[Any, Any, Any],
        team: str | None = None,
        limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
        after: str | None = None,
    ) -> dict[str, Any]:
        only(request, ("team", "limit", "after"))
        if after is not None and public_part(after) is None:
            raise Malformed(f"`after` must be the public part of a key; {after!r:.60} is none.", param="after")
        rows = await keys.list_keys(database, team=team, after=after, limit=limit)
        return {"data": [_told(row) for row in rows], "next": f"nx-{rows[-1].prefix}" if len(rows) == limit else None}

    @post("/keys")
    async def create_key(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        wanted = read(await request.body(), NewKey)
        try:
            key = await keys.create_key(
                database,
                wanted.team,
                name=wanted.name,
                admin=wanted.admin,
                content=wanted.content,
                models=wanted.models,
                routes=wanted.routes,
                networks=wanted.networks,
                expires_at=wanted.expires_at,
            )
        except BadKey as fault:
            raise Malformed(str(fault), param=fault.field) from None
        return await _shown_once(key)

    @get("/keys/{prefix:str}")
    async def show_key(prefix: str) -> dict[str, Any]:
        return await _row(prefix)

    @patch("/keys/{prefix:str}")
    async def change_key(request: Request[Any, Any, Any], prefix: str) -> dict[str, Any]:
        changes = read(await request.body(), KeyChanges)
        try:
            changed = await keys.change_key(database, prefix, changes)
        except BadKey as fault:
            raise Malformed(str(fault), param=fault.field) from None
        if not changed:
            raise _none(prefix)
        return await _row(prefix)

    @delete("/keys/{prefix:str}", status_code=200)
    async def revoke_key(prefix: str) -> dict[str, Any]:
        if not await keys.revoke_key(database, prefix):
            raise _none(prefix)
        return await _row(prefix)

    @post("/keys/{prefix:str}/rotate")
    async def rotate_key(request: Request[Any, Any, Any], prefix: str) -> Response[dict[str, Any]]:
        rotation = read(await request.body(), Rotation)
        try:
            key = await keys.rotate_key(database, prefix, overlap_s=rotation.overlap_s)
        except BadKey as fault:
            raise Malformed(str(fault), param=fault.field) from None
        if key is None:
            raise _none(prefix)
        return await _shown_once(key)

    async def _shown_once(key: str) -> Response[dict[str, Any]]:
        return Response({"key": key, **await _row(key)}, status_code=201, headers={"cache-control": "no-store"})

    async def _row(prefix: str) -> dict[str, Any]:
        row = await keys.show_key(database, prefix)
        if row is None:
            raise UnknownRoute(f"There is no key {_public(prefix)}. GET /admin/v1/keys lists those there are.")
        return _told(row)

    return Router("/", route_handlers=[list_keys, create_key, show_key, change_key, revoke_key, rotate_key])


def _none(prefix: str) -> UnknownRoute:
    return UnknownRoute(f"There is no valid key {_public(prefix)}: it is unknown, or was revoked, or has expired.")


def _public(prefix: str) -> str:
    """What may be repeated: a whole key may have been sent for its public part."""
    part = public_part(prefix)
    return f"nx-{part}" if part else "of that name"


def _told(row: KeyRow) -> dict[str, Any]:
    told = msgspec.structs.asdict(row)
    return {**told, "prefix": f"nx-{row.prefix}", "replaced_by": row.replaced_by and f"nx-{row.replaced_by}"}
