"""Teams over HTTP, for admin keys: GET /admin/v1/teams and PUT /admin/v1/teams/{name}."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get, put
from litestar.params import Parameter
from msgspec import UNSET, Struct, UnsetType
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.admin.request_parsing import parse_admin_body, reject_unknown_parameters
from app.api.path_segments import decode_slashes
from app.domain import ContentPolicy, DroppableFields
from app.store import teams
from app.store.errors import InvalidKeyField
from providers.canonical.errors import InvalidRequest


class TeamBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT: how much of the team's requests and responses is recorded, which fields may be dropped, its priority.

    UNSET: unchanged.
    """

    content: ContentPolicy | UnsetType = UNSET
    drop: DroppableFields | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET


def routes(database: AsyncEngine) -> Router:
    @get("/teams")
    async def list_teams(
        request: Request[Any, Any, Any],
        limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
        after: str | None = None,
    ) -> dict[str, Any]:
        reject_unknown_parameters(request, ("limit", "after"))
        rows = await teams.list_teams(database, after=after, limit=limit)
        return {"data": [msgspec.structs.asdict(row) for row in rows], "next": rows[-1].name if len(rows) == limit else None}

    @put("/teams/{name:path}")
    async def set_team(request: Request[Any, Any, Any], name: str) -> dict[str, Any]:
        """Create or change a team. Its name may contain slashes."""
        team = decode_slashes(name.removeprefix("/"))
        body = parse_admin_body(await request.body(), TeamBody)
        if body.content is UNSET and body.drop is UNSET and body.priority is UNSET:
            raise InvalidRequest("Nothing to set: the body has none of `content`, `drop` and `priority`.")
        try:
            config = await teams.set_team(database, team, body.content, () if body.drop is None else body.drop, body.priority)
        except InvalidKeyField as fault:
            raise InvalidRequest(str(fault), param=fault.field) from None
        return {"name": team, "content": config.content, "drop": config.drop, "priority": config.priority}

    return Router("/", route_handlers=[list_teams, set_team])
