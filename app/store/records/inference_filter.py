"""Filters of inferences, as conditions in SQL."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import Struct, structs
from sqlalchemy import ColumnElement, case, func, literal_column, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.episode_names import episode_id_of
from app.domain.exchange import OriginKind
from app.store.postgres import tables
from app.store.postgres.conditions import AnyOf, one_of, values_of
from app.store.usage.counted_models import model_names
from app.store.usage.named_filters import NamedFilters, check_excluded, check_named

# A caller may send an episode id from up to a minute in the future, so its inferences may be that much older.
_EPISODE_TOLERANCE_MS = 60_000
_LOWEST_ID = uuid7.lowest_at(0)

Statuses = int | tuple[int, ...]
# The least and the most of a measurement, by the column of it.
# What the index of inferences that were not answered knows, beside the time.
_FIELDS_OF_UNANSWERED = frozenset({"outcome", "team", "team_id", "only_teams"})
# As text, not as a parameter: Postgres must see that the index of these serves, when it makes a plan for any parameters.
_is_unanswered = tables.inferences.c.outcome != literal_column("'answered'")
RANGES = ("cost_microusd", "duration_us", "first_token_us", "input_tokens", "output_tokens")


class InferenceFilter(Struct, frozen=True):
    """Filters of a list; None: any.

    A filter with several values is met by each of them; `status` and `status_class` together by either. Those of `min_...` and `max_...`
    are met by at least and at most that much, of what was measured.
    """

    model: AnyOf | None = None  # its name
    team_id: str | None = None
    outcome: AnyOf | None = None
    since_ms: int | None = None  # when the request was received, Unix time
    until_ms: int | None = None  # likewise
    team: AnyOf | None = None  # its name
    only_teams: Collection[str] | None = None  # those with these names
    key: AnyOf | None = None  # its public part, without nx-
    episode: str | None = None  # its UUID, or the text that its caller names it by
    end_user: AnyOf | None = None
    tag: tuple[str, str] | None = None  # its name and value
    provider: AnyOf | None = None
    served_model: AnyOf | None = None
    route: AnyOf | None = None
    function: AnyOf | None = None
    variant: AnyOf | None = None
    experiment: AnyOf | None = None
    status: Statuses | None = None
    status_class: Statuses | None = None  # the first digit of the status
    error: AnyOf | None = None
    min_cost_microusd: int | None = None
    max_cost_microusd: int | None = None
    min_duration_us: int | None = None
    max_duration_us: int | None = None
    min_first_token_us: int | None = None
    max_first_token_us: int | None = None
    min_input_tokens: int | None = None
    max_input_tokens: int | None = None
    min_output_tokens: int | None = None
    max_output_tokens: int | None = None
    min_attempts: int | None = None  # so many attempts were made
    trace_id: str | None = None
    request_id: str | None = None  # the caller's own, or the gateway's id of a request whose caller gave none
    origin: OriginKind | Literal["caller"] | None = None  # why the gateway made the request itself; "caller": it did not
    original_id: str | None = None  # made of that inference
    text: str | None = None  # a search, as read_search() makes it, of teams with full-text search
    episode_ids: Collection[str] | None = None  # the ids that `episode` may have, which conditions() needs
    shadow: str | None = None  # of the shadow of this function or model
    sent_by_people: Literal[True] | None = None  # by a caller, or by somebody in the playground
    excluded: "InferenceFilter | None" = None  # what meets any of its filters by values is left out; what has no value there stays

    @property
    def has_repeats(self) -> bool:
        """Those by an end user or tag are of what callers sent, unless others are named: their sums have no shadow and no replay."""
        is_named = self.shadow is not None or self.original_id is not None or self.origin not in (None, "caller")
        return is_named or (self.end_user is None and self.tag is None)


def named_filters(filters: InferenceFilter) -> NamedFilters:
    return NamedFilters(filters.team, filters.team_id, filters.key, filters.model, filters.function, filters.provider)


async def check_names(connection: AsyncConnection, filters: InferenceFilter, *, is_empty: bool) -> None:
    """Raises InvalidKeyField for a name that never existed: an excluded one, as the list would look right, or any if nothing was found."""
    if is_empty:
        await check_named(connection, named_filters(filters), filters.only_teams)
    if filters.excluded is not None:
        await check_excluded(connection, named_filters(filters.excluded), filters.only_teams)


def conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions of a filter on inferences, without those on the time and the text."""
    if not filters.has_repeats:
        yield tables.inferences.c.origin.is_(None)
    if leaves_out_answered(filters):
        yield _is_unanswered
    yield from _field_conditions(filters)
    if filters.excluded is not None:
        yield from (each.is_not(true()) for each in _field_conditions(filters.excluded))


def leaves_out_answered(filters: InferenceFilter) -> bool:
    """Whether no inference that was answered matches; there is an index of the others, of which there are few."""
    excluded = None if filters.excluded is None else filters.excluded.outcome
    return (filters.outcome is not None and "answered" not in values_of(filters.outcome)) or "answered" in values_of(excluded)


def has_index(filters: InferenceFilter) -> bool:
    """Whether an index of inferences alone finds what matches, in the order of ids: no hours without a match need be left out."""
    given = fields_given(filters) - {"since_ms", "until_ms"}
    if filters.excluded is None:
        of_a_user = given == {"end_user"} and len(values_of(filters.end_user)) == 1
        return of_a_user or ("outcome" in given and given <= _FIELDS_OF_UNANSWERED and leaves_out_answered(filters))
    return fields_given(filters.excluded) == {"outcome"} and given <= _FIELDS_OF_UNANSWERED and leaves_out_answered(filters)


def index_conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields those of conditions() that an index knows, if has_index()."""
    if has_index(filters):
        yield from conditions(filters)


def fields_given(filters: InferenceFilter) -> set[str]:
    """Returns the names of the fields that are set, without `excluded`."""
    return {name for name, value in structs.asdict(filters).items() if value is not None and name != "excluded"}


def _field_conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the condition of each field that is set."""
    columns = tables.inferences.c
    names = (
        *("team_id", "outcome", "end_user", "served_model", "route", "error", "trace_id"),
        *("function", "variant", "experiment", "original_id", "shadow"),
    )
    yield from equal_conditions(filters, {**{name: columns[name] for name in names}, "provider": columns.served_provider})
    yield from status_conditions(filters, columns.status)
    if filters.origin is not None:
        yield columns.origin.is_(None) if filters.origin == "caller" else columns.origin == filters.origin
    if filters.sent_by_people:
        yield or_(columns.origin.is_(None), columns.origin == "playground")
    if filters.model is not None:
        yield columns.model.in_(_sent_models(filters))
    if filters.team is not None:
        yield of_teams(values_of(filters.team))
    if filters.only_teams is not None:
        yield of_teams(filters.only_teams)
        # Whoever may see what the team that pays sent may not see what others sent.
        yield or_(columns.content_team_id.is_(None), of_teams(filters.only_teams, columns.content_team_id))
    if filters.key is not None:
        yield columns.key_id.in_(select(tables.keys.c.id).where(one_of(tables.keys.c.prefix, values_of(filters.key))))
    if filters.episode is not None:
        assert filters.episode_ids is not None, "they were looked for before"
        yield columns.episode_id.in_(filters.episode_ids)
        yield columns.id >= min(map(earliest_id, filters.episode_ids), default=_LOWEST_ID)
    if filters.request_id is not None:
        has_it = columns.request_id == filters.request_id
        yield or_(has_it, columns.id == filters.request_id.lower()) if uuid7.is_uuid7(filters.request_id) else has_it
    if filters.tag is not None:
        yield columns.tags[filters.tag[0]].astext == filters.tag[1]
    for name in RANGES:
        least, most = getattr(filters, f"min_{name}"), getattr(filters, f"max_{name}")
        if least is not None:
            yield columns[name] >= least
        if most is not None:
            yield columns[name] <= most
    if filters.min_attempts is not None:
        yield attempts_made() >= filters.min_attempts


def id_conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions on the time, which is in the ids."""
    if filters.since_ms is not None:
        yield tables.inferences.c.id >= uuid7.lowest_at(filters.since_ms)
    if filters.until_ms is not None:
        yield tables.inferences.c.id < uuid7.lowest_at(filters.until_ms)


def own_conditions() -> Iterator[ColumnElement[bool]]:
    """Yields the conditions that leave out what is not a team's own.

    These are shadows, which nobody got, and what holds the words of another team than the one that pays.
    """
    yield tables.inferences.c.shadow.is_(None)
    yield tables.inferences.c.content_team_id.is_(None)


def attempts_made() -> ColumnElement[int]:
    """How many attempts an inference had. One that served at once is recorded without a list of them."""
    columns = tables.inferences.c
    return func.coalesce(func.jsonb_array_length(columns.attempts), case((columns.served_provider.is_(None), 0), else_=1))


def matches(filters: InferenceFilter, row: Mapping[str, Any]) -> bool:
    """Whether conditions() and the time choose an inference. `row` is as lists have it, with `key`, the public part of its key."""
    received_ms = uuid7.created_ms(row["id"])
    return (
        all(_field_matches(filters, row))
        and (filters.excluded is None or not any(_field_matches(filters.excluded, row)))
        and (filters.has_repeats or row["origin"] is None)
        and (filters.since_ms is None or received_ms >= filters.since_ms)
        and (filters.until_ms is None or received_ms < filters.until_ms)
    )


def _field_matches(filters: InferenceFilter, row: Mapping[str, Any]) -> Iterator[bool]:
    """Yields whether a row has what is wanted, for each field that is set; one item for what _field_conditions() yields as one."""
    wanted = (
        *((filters.team_id, row["team_id"]), (filters.outcome, row["outcome"]), (filters.end_user, row["end_user"])),
        *((filters.served_model, row["served_model"]), (filters.route, row["route"])),
        *((filters.error, row["error"]), (filters.trace_id, row["trace_id"]), (filters.provider, row["served_provider"])),
        *((filters.function, row["function"]), (filters.variant, row["variant"]), (filters.experiment, row["experiment"])),
        *((filters.team, row["team"]), (filters.key, (row["key"] or "").removeprefix("nx-")), (filters.original_id, row["original_id"])),
        (filters.origin, row["origin"] or "caller"),
        (filters.shadow, row["shadow"]),
        (("caller", "playground") if filters.sent_by_people else None, row["origin"] or "caller"),
    )
    yield from (found in values_of(value) for value, found in wanted if value is not None)
    if filters.episode is not None:
        yield row["episode_id"] == episode_id_of(row["team_id"], filters.episode)
    if filters.request_id is not None:
        yield filters.request_id == row["request_id"] or filters.request_id.lower() == row["id"]
    if filters.model is not None:
        yield row["model"] in _sent_models(filters)
    if filters.only_teams is not None:
        yield {row["team"], row["content_team"] or row["team"]} <= {*filters.only_teams}
    if filters.tag is not None:
        yield cast("dict[str, str]", row["tags"] or {}).get(filters.tag[0]) == filters.tag[1]
    if filters.status is not None or filters.status_class is not None:
        yield row["status"] in values_of(filters.status) or row["status"] // 100 in values_of(filters.status_class)
    yield from (_is_within(filters, name, row[name]) for name in RANGES if _has_range(filters, name))
    if filters.min_attempts is not None:
        yield attempts_of(row) >= filters.min_attempts


def attempts_of(row: Mapping[str, Any]) -> int:
    """Does what attempts_made() does, for a row."""
    attempts: list[Any] | None = row["attempts"]
    return len(attempts) if attempts is not None else int(row["served_provider"] is not None)


def equal_conditions(filters: InferenceFilter, columns: Mapping[str, ColumnElement[Any]]) -> Iterator[ColumnElement[bool]]:
    """Yields a condition for each field that is set. `columns` has the column of each field."""
    for name, column in columns.items():
        if (wanted := getattr(filters, name)) is not None:
            values = values_of(wanted)
            yield column == values[0] if len(values) == 1 else column.in_(values)


def status_conditions(filters: InferenceFilter, status: ColumnElement[int]) -> Iterator[ColumnElement[bool]]:
    classes = (status.between(each * 100, each * 100 + 99) for each in values_of(filters.status_class))
    either = [*(status == each for each in values_of(filters.status)), *classes]
    if either:
        yield or_(*either)


def of_teams(names: Collection[str], team_id: ColumnElement[str] = tables.inferences.c.team_id) -> ColumnElement[bool]:
    if len(names) == 1:  # one value, which an index finds in order
        return team_id == select(tables.teams.c.id).where(one_of(tables.teams.c.name, names)).scalar_subquery()
    return team_id.in_(select(tables.teams.c.id).where(one_of(tables.teams.c.name, names)))


def _has_range(filters: InferenceFilter, name: str) -> bool:
    return getattr(filters, f"min_{name}") is not None or getattr(filters, f"max_{name}") is not None


def _is_within(filters: InferenceFilter, name: str, measured: int | None) -> bool:
    """Returns whether a measurement is within the range of a filter; what was not measured is within none."""
    least, most = getattr(filters, f"min_{name}"), getattr(filters, f"max_{name}")
    return measured is not None and (least is None or measured >= least) and (most is None or measured <= most)


def _sent_models(filters: InferenceFilter) -> list[str]:
    return [name for wanted in values_of(filters.model) for name in model_names(wanted)]


def earliest_id(episode_id: str) -> str:
    """No inference of the episode has a lower id. Nothing says when an episode began that is named by a text."""
    if not uuid7.is_uuid7(episode_id):
        return _LOWEST_ID
    return uuid7.lowest_at(uuid7.created_ms(episode_id) - _EPISODE_TOLERANCE_MS)
