"""Filters of inferences, as conditions in SQL."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import Struct
from sqlalchemy import ColumnElement, or_, select

from app.domain import uuid7
from app.domain.episode_names import episode_id_of
from app.domain.exchange import OriginKind
from app.store.postgres import tables
from app.store.postgres.conditions import one_of
from app.store.usage.counted_models import model_names
from app.store.usage.named_filters import NamedFilters

# A caller may send an episode id from up to a minute in the future, so its inferences may be that much older.
_EPISODE_TOLERANCE_MS = 60_000
_LOWEST_ID = uuid7.lowest_at(0)


class InferenceFilter(Struct, frozen=True):
    """Filters of a list; None: any. `since_ms` and `until_ms`: when the request was received, Unix time. `team`, `model`: its name.

    `only_teams`: of teams with these names. `key`: its public part, without nx-. `status_class`: the first digit of the status.
    `tag`: its name and value. `min_cost_microusd`, `min_duration_us`: at least that. `request_id`: the caller's own, or the gateway's id
    of a request whose caller gave none. `episode`: its UUID, or the text that its caller names it by; `episode_ids`: the ids that it may
    have, which conditions() needs. `origin`: why the gateway made the request itself; "caller": it did not. `original_id`: made of that
    inference. `shadow`: of the shadow of this function or model. `text`: a search, as read_search() makes it, of teams with full-text
    search.
    """

    model: str | None = None
    team_id: str | None = None
    outcome: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    team: str | None = None
    only_teams: Collection[str] | None = None
    key: str | None = None
    episode: str | None = None
    end_user: str | None = None
    tag: tuple[str, str] | None = None
    provider: str | None = None
    served_model: str | None = None
    route: str | None = None
    function: str | None = None
    variant: str | None = None
    experiment: str | None = None
    status: int | None = None
    status_class: int | None = None
    error: str | None = None
    min_cost_microusd: int | None = None
    min_duration_us: int | None = None
    trace_id: str | None = None
    request_id: str | None = None
    origin: OriginKind | Literal["caller"] | None = None
    original_id: str | None = None
    text: str | None = None
    episode_ids: Collection[str] | None = None
    shadow: str | None = None

    @property
    def has_repeats(self) -> bool:
        """Those by an end user or tag are of what callers sent, unless others are named: their sums have no shadow and no replay."""
        is_named = self.shadow is not None or self.original_id is not None or self.origin not in (None, "caller")
        return is_named or (self.end_user is None and self.tag is None)


def named_filters(filters: InferenceFilter) -> NamedFilters:
    return NamedFilters(filters.team, filters.team_id, filters.key, filters.model, filters.function, filters.provider)


def conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions of a filter on inferences, without those on the time and the text."""
    columns = tables.inferences.c
    names = (
        *("team_id", "outcome", "end_user", "served_model", "route", "status", "error", "trace_id"),
        *("function", "variant", "experiment", "original_id", "shadow"),
    )
    if not filters.has_repeats:
        yield columns.origin.is_(None)
    yield from equal_conditions(filters, {**{name: columns[name] for name in names}, "provider": columns.served_provider})
    if filters.origin is not None:
        yield columns.origin.is_(None) if filters.origin == "caller" else columns.origin == filters.origin
    if filters.model is not None:
        yield columns.model.in_(model_names(filters.model))
    if filters.team is not None:
        yield of_teams([filters.team])
    if filters.only_teams is not None:
        yield of_teams(filters.only_teams)
        # Whoever may see what the team that pays sent may not see what others sent.
        yield or_(columns.content_team_id.is_(None), of_teams(filters.only_teams, columns.content_team_id))
    if filters.key is not None:
        yield columns.key_id == select(tables.keys.c.id).where(tables.keys.c.prefix == filters.key).scalar_subquery()
    if filters.episode is not None:
        assert filters.episode_ids is not None, "they were looked for before"
        yield columns.episode_id.in_(filters.episode_ids)
        yield columns.id >= min(map(earliest_id, filters.episode_ids), default=_LOWEST_ID)
    if filters.request_id is not None:
        has_it = columns.request_id == filters.request_id
        yield or_(has_it, columns.id == filters.request_id.lower()) if uuid7.is_uuid7(filters.request_id) else has_it
    if filters.tag is not None:
        yield columns.tags[filters.tag[0]].astext == filters.tag[1]
    if filters.status_class is not None:
        yield columns.status.between(filters.status_class * 100, filters.status_class * 100 + 99)
    if filters.min_cost_microusd is not None:
        yield columns.cost_microusd >= filters.min_cost_microusd
    if filters.min_duration_us is not None:
        yield columns.duration_us >= filters.min_duration_us


def matches(filters: InferenceFilter, row: Mapping[str, Any]) -> bool:
    """Whether conditions() and the time choose an inference. `row`: as lists have it, with `key`, the public part of its key."""
    wanted = (
        *((filters.team_id, row["team_id"]), (filters.outcome, row["outcome"]), (filters.end_user, row["end_user"])),
        *((filters.served_model, row["served_model"]), (filters.route, row["route"]), (filters.status, row["status"])),
        *((filters.error, row["error"]), (filters.trace_id, row["trace_id"]), (filters.provider, row["served_provider"])),
        *((filters.function, row["function"]), (filters.variant, row["variant"]), (filters.experiment, row["experiment"])),
        *((filters.team, row["team"]), (filters.key, row["key"]), (filters.original_id, row["original_id"])),
        (filters.origin, row["origin"] or "caller"),
        (filters.shadow, row["shadow"]),
    )
    received_ms, tags = uuid7.created_ms(row["id"]), cast("dict[str, str]", row["tags"] or {})
    return (
        all(value is None or value == found for value, found in wanted)
        and (filters.episode is None or row["episode_id"] == episode_id_of(row["team_id"], filters.episode))
        and (filters.request_id is None or filters.request_id == row["request_id"] or filters.request_id.lower() == row["id"])
        and (filters.model is None or row["model"] in model_names(filters.model))
        and (filters.has_repeats or row["origin"] is None)
        and (filters.only_teams is None or {row["team"], row["content_team"] or row["team"]} <= {*filters.only_teams})
        and (filters.tag is None or tags.get(filters.tag[0]) == filters.tag[1])
        and (filters.status_class is None or row["status"] // 100 == filters.status_class)
        and (filters.min_cost_microusd is None or (row["cost_microusd"] or 0) >= filters.min_cost_microusd)
        and (filters.min_duration_us is None or row["duration_us"] >= filters.min_duration_us)
        and (filters.since_ms is None or received_ms >= filters.since_ms)
        and (filters.until_ms is None or received_ms < filters.until_ms)
    )


def equal_conditions(filters: InferenceFilter, columns: Mapping[str, ColumnElement[Any]]) -> Iterator[ColumnElement[bool]]:
    """Yields a condition for each field that is set. `columns` has the column of each field."""
    for name, column in columns.items():
        if (value := getattr(filters, name)) is not None:
            yield column == value


def of_teams(names: Collection[str], team_id: ColumnElement[str] = tables.inferences.c.team_id) -> ColumnElement[bool]:
    return team_id.in_(select(tables.teams.c.id).where(one_of(tables.teams.c.name, names)))


def earliest_id(episode_id: str) -> str:
    """No inference of the episode has a lower id. Nothing says when an episode began that is named by a text."""
    if not uuid7.is_uuid7(episode_id):
        return _LOWEST_ID
    return uuid7.lowest_at(uuid7.created_ms(episode_id) - _EPISODE_TOLERANCE_MS)
