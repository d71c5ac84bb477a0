"""Units: what an experiment randomises, as bytes to hash, and the time by which its version is chosen."""

from collections.abc import Mapping

from msgspec import Struct

from app.domain.callers import Caller
from app.domain.experiment_unit import episode_unit, team_unit, value_unit
from app.gateway.state.episode_id import Episode


class Unit(Struct, frozen=True):
    """One of the things that an experiment randomises; all of its requests get one arm."""

    id: bytes  # with the team, as no two teams share a unit
    # Its birth, in Unix time, else that of the conversation, so that one which is running keeps its arm, as far as its episode's id tells
    # it, else the time of the request.
    at_ms: int
    has_birth: bool  # False: it may have been seen before at any time, so weights that change would move it


class RequestFacts(Struct):
    """The facts about a request by which assignments are made.

    Times are Unix time by Postgres's clock, as far as it is known.
    """

    caller: Caller
    episode: Episode
    end_user: str | None
    tags: Mapping[str, str]
    now_ms: int  # when the request came
    current_ms: int  # when the snapshot was last known to be the newest


def unit_of(kind: str, facts: RequestFacts) -> Unit | None:
    """Returns the unit of a kind, as in ExperimentConfig.unit, or None if the request lacks the user or the tag."""
    team_id = facts.caller.team_id
    if kind == "episode":
        episode = facts.episode
        id = episode_unit(team_id, episode.id)
        born_ms = episode.born_ms
        return Unit(id, facts.now_ms if born_ms is None else born_ms, born_ms is not None)
    born_ms = facts.episode.born_ms
    at_ms = facts.now_ms if born_ms is None else min(born_ms, facts.now_ms)
    if kind == "team":
        return Unit(team_unit(team_id), at_ms, has_birth=False)
    value = facts.end_user if kind == "user" else facts.tags.get(kind.removeprefix("tag:"))
    return None if value is None else Unit(value_unit(team_id, value), at_ms, has_birth=False)
