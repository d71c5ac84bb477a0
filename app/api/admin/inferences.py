"""What was recorded: GET /admin/v1/inferences, /admin/v1/inferences/{id} and /admin/v1/episodes/{id}, for admin keys."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Router, get
from litestar.params import Parameter
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.store import records
from providers.errors import Malformed, UnknownRoute

_Limit = Annotated[int, Parameter(ge=1, le=1000)]


def routes(database: AsyncEngine) -> Router:
    @get("/inferences")
    async def list_inferences(
        limit: _Limit = 50,
        before: str | None = None,
        model: str | None = None,
        team_id: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> dict[str, Any]:
        wanted = records.Filter(model, team_id and _id(team_id, "team_id"), outcome, _ms(since), _ms(until))
        async with database.connect() as connection:
            data = await records.list_inferences(connection, wanted, before=before and _id(before, "before"), limit=limit)
        return {"data": data, "next": data[-1]["id"] if len(data) == limit else None}

    @get("/inferences/{id:str}")
    async def show_inference(id: str) -> dict[str, Any]:
        async with database.connect() as connection:
            found = await records.show_inference(connection, _id(id, "id"))
        if found is None:
            raise UnknownRoute(f"There is no inference {id}. One that was just answered takes a moment to arrive here.")
        return found

    @get("/episodes/{id:str}")
    async def show_episode(id: str) -> dict[str, Any]:
        async with database.connect() as connection:
            inferences = await records.list_episode(connection, _id(id, "id"))
        if not inferences:
            raise UnknownRoute(f"There is no episode {id} with an inference in it.")
        return {"id": id.lower(), "inferences": inferences}

    return Router("/", route_handlers=[list_inferences, show_inference, show_episode])


def _id(said: str, name: str) -> str:
    if not uuid7.is_uuid7(said):
        raise Malformed(f"`{name}` must be a UUIDv7; {said!r:.60} is none.", param=name)
    return said.lower()


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
