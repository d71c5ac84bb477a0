"""Episodes: /admin/v1/episodes/{id} and its timeline."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.records.inferences import TIMEOUT_S, Inference, TeamId, page_of, parse_id
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.store.postgres.paging import Limit
from app.store.records import inference_queries
from app.store.records.episode_lookup import check_episode
from app.store.records.episode_timeline import EpisodeTimeline, read_timeline
from providers.canonical.errors import InvalidRequest, UnknownRecord

_MAX_TIMELINE_ROWS = 200


class Episode(Struct, frozen=True):
    """The inferences of an episode. `next`: give it as `after` for the next page; null: this is the last one."""

    id: str
    team_id: str
    inferences: Sequence[Inference]
    next: str | None


class EpisodeQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 1000
    after: Annotated[str, Meta(description="`next` of the page before.")] | None = None
    team_id: TeamId | None = None


class TimelineQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=_MAX_TIMELINE_ROWS, description="Most inferences of the page.")] = 100
    after: Annotated[str, Meta(description="`next` of the page before.")] | None = None
    team_id: TeamId | None = None


async def _show_episode(call: Call[EpisodeQuery, NoBody]) -> Answer:
    id, after, team_id = await _find_episode(call)
    rows = await inference_queries.list_episode(call.connection, team_id, id, after=after, limit=call.query.limit + 1)
    return Answer(Episode(id, team_id, *page_of(call, rows, call.query.limit)))


async def _show_timeline(call: Call[TimelineQuery, NoBody]) -> Answer:
    id, after, team_id = await _find_episode(call)
    team = await inference_queries.find_team_name(call.connection, team_id)
    # As of inferences: what hosts say, and where they are, is of the configuration that teams share.
    hidden = () if call.principal.may("config:read") else ("endpoint", "code")
    timeline = await read_timeline(
        call.connection,
        team_id,
        id,
        after=after,
        limit=call.query.limit,
        with_tools=call.is_visible(team, "records:content"),
        hidden=hidden,
    )
    if timeline is None:  # it has expired since
        raise _no_episode(id)
    return Answer(timeline)


async def _find_episode(call: Call[EpisodeQuery, NoBody] | Call[TimelineQuery, NoBody]) -> tuple[str, str | None, str]:
    """The episode, where to go on, and the one team that has it. Raises UnknownRecord, InvalidRequest, InvalidKeyField."""
    named, query = check_episode(call.path["id"], "id"), call.query
    after = query.after and parse_id(query.after, "after")
    team_id = query.team_id and parse_id(query.team_id, "team_id")
    found = await inference_queries.find_episodes(call.connection, named, team_id=team_id, only_teams=call.visible_teams())
    team_id = _only_team(named, list(found))
    return found[team_id], after, team_id


def _only_team(named: str, team_ids: list[str]) -> str:
    """Raises UnknownRecord without one, InvalidRequest for several: a team that uses another's id or name has an episode of its own."""
    if not team_ids:
        raise _no_episode(named)
    if len(team_ids) > 1:
        raise InvalidRequest(
            f"{len(team_ids)} teams have an episode {named}: name one in `team_id`: {', '.join(team_ids)}.", param="team_id"
        )
    return team_ids[0]


def _no_episode(named: str) -> UnknownRecord:
    return UnknownRecord(f"There is no inference of an episode {named}.")


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/episodes/{id}",
            id="get_episode",
            tag="Records",
            summary="List the inferences of an episode, oldest first",
            permission="records:read",
            scope="team",
            query=EpisodeQuery,
            response=Episode,
            errors={404: "There is no such episode, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="episode"),),
            handler=_show_episode,
        ),
        Operation(
            method="GET",
            path="/episodes/{id}/timeline",
            id="get_episode_timeline",
            tag="Records",
            summary="Show an episode as a timeline: attempts, tool calls and sums",
            permission="records:read",
            scope="team",
            query=TimelineQuery,
            response=EpisodeTimeline,
            errors={404: "There is no such episode, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="episode"),),
            handler=_show_timeline,
        ),
    ]
