"""What was recorded: GET /admin/v1/inferences, /admin/v1/inferences/{id} and /admin/v1/episodes/{id}, for admin keys."""

from datetime import UTC, datetime
from typing import Annotated, Any, get_args

from litestar import Request, Router, get
from litestar.params import Parameter
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.domain import Outcome
from app.store import records
from providers.errors import Malformed, UnknownRoute

_Limit = Annotated[int, Parameter(ge=1, le=1000)]
_FILTERS = ("limit", "before", "model", "team_id", "outcome", "since", "until")


def routes(database: AsyncEngine) -> Router:
    @get("/inferences")
    async def list_inferences(
        request: Request[Any, Any, Any],
        limit: _Limit = 50,
        before: str | None = None,
        model: str | None = None,
        team_id: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> dict[str, Any]:
        _only(request, _FILTERS)
        if model is not None and "\0" in model:
            raise Malformed("`model` holds a NUL character, which no name does.", param="model")
        if outcome is not None and outcome not in get_args(Outcome):
            raise Malformed(f"`outcome` may be {', '.join(get_args(Outcome))}.", param="outcome")
        wanted = records.Filter(model, team_id and _id(team_id, "team_id"), outcome, _ms(since), _ms(until))
        after = before and _id(before, "before")
        async with records.asking(database) as connection:
            data = await records.list_inferences(connection, wanted, before=after, limit=limit)
        return {"data": data, "next": data[-1]["id"] if len(data) == limit else None}

    @get("/inferences/{id:str}")
    async def show_inference(id: str) -> dict[str, Any]:
        wanted = _id(id, "id")
        async with records.asking(database) as connection:
            found = await records.show_inference(connection, wanted)
        if found is None:
            raise UnknownRoute(f"There is no inference {id}. One that was just answered takes a moment to arrive here.")
        return found

    @get("/episodes/{id:str}")
    async def show_episode(request: Request[Any, Any, Any], id: str, limit: _Limit = 1000, after: str | None = None) -> dict[str, Any]:
        _only(request, ("limit", "after"))
        wanted, last = _id(id, "id"), after and _id(after, "after")
        async with records.asking(database) as connection:
            inferences = await records.list_episode(connection, wanted, after=last, limit=limit)
        if not inferences and last is None:
            raise UnknownRoute(f"There is no episode {id} with an inference in it.")
        return {"id": wanted, "inferences": inferences, "next": inferences[-1]["id"] if len(inferences) == limit else None}

    return Router("/", route_handlers=[list_inferences, show_inference, show_episode])


def _id(said: str, name: str) -> str:
    if not uuid7.is_uuid7(said):
        raise Malformed(f"`{name}` must be a UUIDv7; {said!r:.60} is none.", param=name)
    return said.lower()


def _only(request: Request[Any, Any, Any], known: tuple[str, ...]) -> None:
    """A filter with a slip in its name must not show everything."""
    for name in request.query_params:
        if name not in known:
            raise Malformed(f"There is no parameter {name!r:.60}: {', '.join(known)} are known.", param=name[:60])


def _ms(moment: datetime | None) -> int | None:
    """Without a zone: UTC."""
    return None if moment is None else int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
