"""Recorded inferences, for admin keys: GET /admin/v1/inferences, /admin/v1/inferences/{id} and /admin/v1/episodes/{id}."""

from datetime import UTC, datetime
from typing import Annotated, Any, get_args

from litestar import Request, Router, get
from litestar.params import Parameter
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.api.rest.request_parsing import reject_unknown_parameters
from app.domain import Outcome
from app.store import inference_queries
from providers.canonical.errors import InvalidRequest, UnknownRecord

_Limit = Annotated[int, Parameter(ge=1, le=1000)]
_PARAMETERS = ("limit", "before", "model", "team_id", "outcome", "since", "until")


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
        reject_unknown_parameters(request, _PARAMETERS)
        if model is not None and "\0" in model:
            raise InvalidRequest("`model` must not contain a NUL character.", param="model")
        if outcome is not None and outcome not in get_args(Outcome):
            raise InvalidRequest(f"`outcome` may be {', '.join(get_args(Outcome))}.", param="outcome")
        filters = inference_queries.InferenceFilter(model, team_id and _parse_id(team_id, "team_id"), outcome, _to_ms(since), _to_ms(until))
        before_id = before and _parse_id(before, "before")
        async with inference_queries.timed_connection(database) as connection:
            data = await inference_queries.list_inferences(connection, filters, before=before_id, limit=limit)
        return {"data": data, "next": data[-1]["id"] if len(data) == limit else None}

    @get("/inferences/{id:str}")
    async def show_inference(id: str) -> dict[str, Any]:
        inference_id = _parse_id(id, "id")
        async with inference_queries.timed_connection(database) as connection:
            inference = await inference_queries.show_inference(connection, inference_id)
        if inference is None:
            raise UnknownRecord(f"There is no inference {id}. A new one appears here a moment after its response.")
        return inference

    @get("/episodes/{id:str}")
    async def show_episode(
        request: Request[Any, Any, Any], id: str, team_id: str | None = None, limit: _Limit = 1000, after: str | None = None
    ) -> dict[str, Any]:
        reject_unknown_parameters(request, ("team_id", "limit", "after"))
        episode_id, after_id = _parse_id(id, "id"), after and _parse_id(after, "after")
        async with inference_queries.timed_connection(database) as connection:
            if team_id is None:
                team_id = _only_team(id, await inference_queries.list_episode_teams(connection, episode_id))
            else:
                team_id = _parse_id(team_id, "team_id")
            inferences = await inference_queries.list_episode(connection, team_id, episode_id, after=after_id, limit=limit)
        if not inferences and after_id is None:
            raise UnknownRecord(f"There is no inference of an episode {id}.")
        return {
            "id": episode_id,
            "team_id": team_id,
            "inferences": inferences,
            "next": inferences[-1]["id"] if len(inferences) == limit else None,
        }

    return Router("/", route_handlers=[list_inferences, show_inference, show_episode])


def _only_team(episode_id: str, team_ids: list[str]) -> str:
    """Raises UnknownRecord without one, InvalidRequest for several: a team that uses another's id has an episode of its own."""
    if not team_ids:
        raise UnknownRecord(f"There is no inference of an episode {episode_id}.")
    if len(team_ids) > 1:
        raise InvalidRequest(
            f"{len(team_ids)} teams have an episode {episode_id}: name one in `team_id`: {', '.join(team_ids)}.", param="team_id"
        )
    return team_ids[0]


def _parse_id(text: str, name: str) -> str:
    if not uuid7.is_uuid7(text):
        raise InvalidRequest(f"`{name}` must be a UUIDv7, not {text!r:.60}.", param=name)
    return text.lower()


def _to_ms(moment: datetime | None) -> int | None:
    """Unix time in milliseconds. A time without a zone is UTC."""
    return None if moment is None else int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
