"""Rollup sums: what a batch of inferences adds to the rollups of each minute, hour and day."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from app.domain.routing import MODEL_PREFIXES
from app.recording.spool.refusal_records import Refusals
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.partitions import Connection
from app.store.usage.rollups import (
    BROAD_COLUMNS,
    MAX_SUBJECT_BYTES,
    MAX_SUBJECTS,
    OTHER,
    REFUSED,
    SECONDS,
    Breadth,
    Group,
    Level,
    Period,
    RollupSums,
    SubjectKey,
    broad_group,
    group_id,
    load_subjects,
    subject_hash,
)
from app.store.usage.sketches import bucket_of
from app.store.usage.sums import Sums

K = TypeVar("K")
BroadGroups: TypeAlias = Mapping[int, Mapping[Breadth, tuple[int, Group]]]  # by the id of a group

_MAX_CACHED_GROUPS = 100_000
_MAX_CACHED_DAYS = 4  # of subjects

_group_columns = itemgetter(
    *(
        INFERENCE_COLUMNS.index(name)
        for name in (
            *("received_at", "team_id", "key_id", "route", "model", "function", "variant", "served_provider", "served_model"),
            *("status", "outcome", "error", "tags", "end_user", "origin"),
        )
    )
)
_value_columns = itemgetter(
    *(
        INFERENCE_COLUMNS.index(name)
        for name in (
            *("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_microusd", "charge_basis"),
            *("duration_us", "first_token_us"),
        )
    )
)
_decode_tags = msgspec.json.Decoder(dict[str, str]).decode


class RollupSummer:
    """Sums up batches of one connection.

    `stored_groups` has the ids of groups in Postgres, as far as they are remembered.
    """

    def __init__(self, connection: Connection) -> None:
        self.stored_groups: set[int] = set()
        self._connection = connection
        self._groups: dict[tuple[Any, ...], tuple[int, Group]] = {}  # by the columns of an inference
        self._broad_groups: dict[int, Mapping[Breadth, tuple[int, Group]]] = {}  # by the id of a group
        self._subjects: dict[int, dict[str, set[int]]] = {}

    async def sum(self, inferences: Sequence[tuple[Any, ...]], refusals: Sequence[Refusals] = ()) -> RollupSums:
        """Returns what these rows, in the order of INFERENCE_COLUMNS, and these refusals add."""
        groups: dict[int, Group] = {}
        minutes: dict[tuple[int, int], Sums] = {}
        subject_hours: dict[SubjectKey, Sums] = {}
        for inference in inferences:
            received_at, *group_values, tags, end_user, origin = _group_columns(inference)
            group = tuple(group_values)
            found = self._groups.get(group)
            if found is None:
                found = self._remember_group(group)
            id, groups[found[0]] = found
            time = int(received_at.timestamp())
            minute = time - time % 60, id
            sums = minutes.get(minute)
            if sums is None:
                sums = minutes[minute] = Sums()
            counted = _counted(inference)
            sums.count(*counted)
            # A shadow or a replay is charged to a team, never to whose request it repeats.
            if (tags is not None or end_user) and origin is None:
                team = groups[id][0]
                for dimension, value in _subjects(tags, end_user):
                    dimension, value = await self._admit_subject(received_at, team, dimension, value)
                    subject = SubjectKey(dimension, value, time - time % 3600, id, team)
                    sums = subject_hours.get(subject)
                    if sums is None:
                        sums = subject_hours[subject] = Sums()
                    sums.count(*counted)
        for each in refusals:
            _add_refusals(each, groups, minutes)
        broad = {id: self._broad_groups.get(id) or self._remember_broad_groups(id, group) for id, group in groups.items()}
        for by_breadth in broad.values():
            groups.update(by_breadth.values())
        return RollupSums(groups, _levels(minutes, broad), _subject_levels(subject_hours, broad))

    def mark_stored(self, sums: RollupSums) -> None:
        """Notes that the transaction that stored the sums is committed."""
        if len(self.stored_groups) > _MAX_CACHED_GROUPS:
            self.stored_groups.clear()
        self.stored_groups.update(sums.groups)

    def _remember_group(self, columns: tuple[Any, ...]) -> tuple[int, Group]:
        if len(self._groups) > _MAX_CACHED_GROUPS:
            self._groups.clear()
        group = _group_of(columns)
        self._groups[columns] = found = group_id(group), group
        return found

    def _remember_broad_groups(self, id: int, group: Group) -> Mapping[Breadth, tuple[int, Group]]:
        if len(self._broad_groups) > _MAX_CACHED_GROUPS:
            self._broad_groups.clear()
        self._broad_groups[id] = broad = _broad_groups_of(group)
        return broad

    async def _admit_subject(self, received_at: datetime.datetime, team: str, dimension: str, value: str) -> tuple[str, str]:
        """Returns the subject, or OTHER if it is too long or the team has MAX_SUBJECTS of that day already."""
        if len(dimension.encode()) + len(value.encode()) > MAX_SUBJECT_BYTES:
            return _other(dimension)
        day = int(received_at.timestamp()) // SECONDS["day"]
        by_team = self._subjects.get(day)
        if by_team is None:
            if len(self._subjects) >= _MAX_CACHED_DAYS:
                del self._subjects[min(self._subjects)]
            by_team = self._subjects[day] = await load_subjects(self._connection, day)
        known = by_team.setdefault(team, set())
        hashed = subject_hash(dimension, value)
        if hashed not in known:
            if len(known) >= MAX_SUBJECTS:
                return _other(dimension)
            known.add(hashed)
        return dimension, value


def sum_lost_subjects(before: Sequence[tuple[Any, ...]], after: Sequence[tuple[Any, ...]]) -> dict[Level, Mapping[SubjectKey, Sums]]:
    """Returns what inferences add to sums of the subjects that they have `before` a change and no longer
    `after` it.

    There is no limit to the number of these subjects.
    """
    hours: dict[SubjectKey, Sums] = {}
    broad: dict[int, Mapping[Breadth, tuple[int, Group]]] = {}
    for old, new in zip(before, after, strict=True):
        received_at, *group_values, tags, end_user, origin = _group_columns(old)
        *_, new_tags, new_end_user, _ = _group_columns(new)
        if origin is not None:
            continue
        lost = set(_subjects(tags, end_user)) - set(_subjects(new_tags, new_end_user))
        if not lost:
            continue
        group, time = _group_of(group_values), int(received_at.timestamp())
        id, counted = group_id(group), _counted(old)
        broad[id] = broad.get(id) or _broad_groups_of(group)
        for dimension, value in lost:
            hours.setdefault(SubjectKey(dimension, value, time - time % 3600, id, group[0]), Sums()).count(*counted)
    return _subject_levels(hours, broad)


def _counted(inference: tuple[Any, ...]) -> tuple[tuple[int, ...], int, int | None]:
    """Returns the arguments of Sums.count()."""
    input, output, cached, reasoning, cost, charge_basis, duration_us, first_token_us = _value_columns(inference)
    added = (
        *(1, input or 0, output or 0, cached or 0, reasoning or 0, cost or 0),
        *((cost or 0) if charge_basis not in (None, "reported") else 0, cost is None, duration_us, duration_us, cost or 0),
    )
    return added, bucket_of(duration_us), None if first_token_us is None else bucket_of(first_token_us)


def _other(dimension: str) -> tuple[str, str]:
    """Returns the subject for all others: a name of a tag may be one of very many, too."""
    return (dimension, OTHER) if dimension == "end_user" else ("tag:" + OTHER, OTHER)


def _subjects(tags: str | None, end_user: str | None) -> list[tuple[str, str]]:
    subjects = [("end_user", end_user)] if end_user else []
    if tags is not None:
        subjects += [(f"tag:{name}", value) for name, value in _decode_tags(tags).items()]
    return subjects


def _group_of(columns: Sequence[Any]) -> Group:
    """The group of an inference with these columns: UUIDs as Postgres writes them, and the model that the caller's name means."""
    team_id, key_id, route, model, function, variant, provider, served_model, status, outcome, error = columns
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    return (
        *(str(UUID(team_id)), str(UUID(key_id)), route, model, function or "", variant or ""),
        *(provider or "", served_model or "", status, outcome, error or "", ""),
    )


def _add_refusals(refusals: Refusals, groups: dict[int, Group], minutes: dict[tuple[int, int], Sums]) -> None:
    """Adds only the number of refusals: no engine did anything for them."""
    for each in refusals.counts:
        of_request = each.team_id, each.key_id, each.route, each.model
        group = (*of_request, *("", "", "", ""), each.status, REFUSED, each.error, each.rule)
        id = group_id(group)
        groups[id] = group
        sums = minutes.get((each.minute * 60, id))
        if sums is None:
            sums = minutes[each.minute * 60, id] = Sums()
        sums.add_requests(each.requests)


def _broad_groups_of(group: Group) -> dict[Breadth, tuple[int, Group]]:
    broad: dict[Breadth, tuple[int, Group]] = {}
    for breadth in BROAD_COLUMNS:
        broader = broad_group(group, breadth)
        broad[breadth] = group_id(broader), broader
    return broad


def _levels(minutes: Mapping[tuple[int, int], Sums], broad: BroadGroups) -> dict[Level, Mapping[tuple[int, int], Sums]]:
    hours = _merge(minutes, lambda key: (_begin(key[0], "hour"), key[1]))
    by_target = _merge(hours, lambda key: (key[0], broad[key[1]]["target"][0]))
    by_key = _merge(hours, lambda key: (key[0], broad[key[1]]["key"][0]))
    # A key's group is of one team, and a team's of one outcome.
    teams = {each["key"][0]: each["team"][0] for each in broad.values()}
    outcomes = {each["team"][0]: each["outcome"][0] for each in broad.values()}
    by_team = _merge(by_key, lambda key: (key[0], teams[key[1]]))
    by_outcome = _merge(by_team, lambda key: (key[0], outcomes[key[1]]))
    return {
        "minute": minutes,
        "hour": hours,
        "day": sum_by_day(hours),
        "hour_and_outcome": by_outcome,
        "hour_and_team": by_team,
        "hour_and_target": by_target,
        "hour_and_key": by_key,
        "day_and_outcome": sum_by_day(by_outcome),
        "day_and_team": sum_by_day(by_team),
        "day_and_target": sum_by_day(by_target),
        "day_and_key": sum_by_day(by_key),
    }


def sum_by_day(hours: Mapping[tuple[int, int], Sums]) -> dict[tuple[int, int], Sums]:
    return _merge(hours, lambda key: (_begin(key[0], "day"), key[1]))


def sum_subjects(hours: Mapping[SubjectKey, Sums], groups: Mapping[int, Group]) -> dict[Level, Mapping[SubjectKey, Sums]]:
    """All levels of these sums by hour, whose groups are among `groups`."""
    return _subject_levels(hours, {key.group_id: _broad_groups_of(groups[key.group_id]) for key in hours})


def _subject_levels(hours: Mapping[SubjectKey, Sums], broad: BroadGroups) -> dict[Level, Mapping[SubjectKey, Sums]]:
    days = _merge(hours, lambda key: key._replace(time=_begin(key.time, "day")))
    by_team = _merge(days, lambda key: key._replace(group_id=broad[key.group_id]["team"][0]))
    return {"hour": hours, "day": days, "day_and_team": by_team}


def _begin(time: int, period: Period) -> int:
    return time - time % SECONDS[period]


def _merge(sums_by_key: Mapping[K, Sums], broader: Callable[[K], K]) -> dict[K, Sums]:
    """Adds up the sums of equal broader keys. Sums that are alone there are the same object in both, as are most of a batch."""
    merged: dict[K, Sums] = {}
    added_up: set[K] = set()
    for key, sums in sums_by_key.items():
        broad_key = broader(key)
        into = merged.get(broad_key)
        if into is None:
            merged[broad_key] = sums
            continue
        if broad_key not in added_up:
            added_up.add(broad_key)
            merged[broad_key] = into = into.copy()
        into.add(sums)
    return merged
