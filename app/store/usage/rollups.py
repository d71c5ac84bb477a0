"""Rollups: sums of inferences by minute, hour and day, which the writer keeps in the transaction that stores the inferences.

A group is everything that answers can be grouped and filtered by, except end users and tags. These have rollups of their own, by
subject: `end_user`, or `tag:` and the name of a tag, with a value.

Most questions are about everything, about teams and keys, or about models and who serves them. For these the hours and days are also
summed up by broader groups, of which there are a few dozen instead of thousands: a group's other columns are empty there.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from app.store.postgres.partitions import Connection
from app.store.postgres.tables import RollupLevel, rollup_groups, rollup_tables, subject_rollup_tables
from app.store.usage.sketches import MAX_ENTRIES, pack
from app.store.usage.sums import MAX_COLUMNS, SKETCH_COLUMNS, SUM_COLUMNS, Sums, lock_sums_shared

Level = RollupLevel
Period = Literal["minute", "hour", "day"]
Breadth = Literal["outcome", "team", "target", "key"]
SECONDS: Mapping[Period, int] = {"minute": 60, "hour": 3600, "day": 86_400}
# What broader groups tell apart. All have the outcome, by which requests count as failed.
BROAD_COLUMNS: Mapping[Breadth, tuple[str, ...]] = {
    "outcome": ("outcome",),
    "team": ("team_id", "outcome"),
    "key": ("team_id", "key_id", "outcome"),
    "target": ("model", "provider", "served_model", "outcome"),
}

# Distinct subjects of a team and day. Callers choose the values, so what goes beyond is summed up as OTHER.
MAX_SUBJECTS = 20_000
MAX_SUBJECT_BYTES = 1000  # of name and value together; a longer one counts as OTHER
OTHER = "(other)"
UNKNOWN = "(unknown)"  # a team, key or model that is not known
REFUSED = "refused"  # the outcome of groups that count refused requests, which are no inferences

GROUP_COLUMNS = tuple(column.name for column in rollup_groups.columns if column.name != "id")
_EMPTY: Mapping[str, Any] = {"team_id": None, "key_id": None, "status": 0}  # of other columns: ""

K = TypeVar("K")
Group = tuple[Any, ...]  # the values of GROUP_COLUMNS


class SubjectKey(NamedTuple):
    """The key of the sums of a subject in a period."""

    dimension: str
    value: str
    time: int  # Unix time in seconds at which the period begins
    group_id: int
    team_id: str


class RollupSums(NamedTuple):
    """The sums that a batch adds, by level.

    `by_level` has them by Unix time in seconds and group id, and `by_subject` by subject.
    """

    groups: Mapping[int, Group]
    by_level: Mapping[Level, Mapping[tuple[int, int], Sums]]
    by_subject: Mapping[Level, Mapping[SubjectKey, Sums]]


def group_id(group: Group) -> int:
    """The id of a group: 63 bits of a hash of its values, so that every writer knows it without a query."""
    return int.from_bytes(blake2b(msgspec.msgpack.encode(group), digest_size=8).digest(), "big") >> 1


def broad_group(group: Group, breadth: Breadth) -> Group:
    kept = BROAD_COLUMNS[breadth]
    return tuple(value if name in kept else _EMPTY.get(name, "") for name, value in zip(GROUP_COLUMNS, group, strict=True))


async def add_rollups(connection: Connection, sums: RollupSums, known_groups: Collection[int]) -> None:
    """Add a batch to the stored rollups, in the transaction that stores it. Their partitions must exist.

    `known_groups` are ids of groups that are stored.
    """
    await _insert_groups(connection, {id: group for id, group in sums.groups.items() if id not in known_groups})
    sketches: _Sketches = {}
    for level, added in sums.by_level.items():
        rows = sorted(added.items(), key=_time_and_group)
        if rows:
            times = [_moment(time) for (time, _), _ in rows]
            await connection.execute(_ADD[level], times, [id for (_, id), _ in rows], *_value_arguments([row for _, row in rows], sketches))
    for level, by_subject in sums.by_subject.items():
        subjects = sorted(by_subject.items(), key=_subject_key)
        if subjects:
            keys = [key for key, _ in subjects]
            await connection.execute(
                _ADD_SUBJECTS[level],
                [key.dimension for key in keys],
                [key.value for key in keys],
                [_moment(key.time) for key in keys],
                [key.group_id for key in keys],
                [key.team_id for key in keys],
                *_value_arguments([row for _, row in subjects], sketches),
            )


def subtract_rollups(new: RollupSums, old: RollupSums) -> RollupSums:
    """Returns what turns stored sums of `old` into those of `new`, which are of the same inferences.

    The sketches of times are left out, so that no time is counted again.
    """

    def differences(now: Mapping[K, Sums], then: Mapping[K, Sums]) -> dict[K, Sums]:
        return {key: sums.difference(then[key]) for key, sums in now.items()}

    return RollupSums(
        new.groups,
        {level: differences(sums, old.by_level[level]) for level, sums in new.by_level.items()},
        {level: differences(sums, old.by_subject[level]) for level, sums in new.by_subject.items()},
    )


async def adjust_rollups(connection: Connection, sums: RollupSums) -> None:
    """Add differences to stored rollups, in the order in which add_rollups() locks them. Rollups that have expired stay away.

    A largest cost is raised, and never lowered: by what it would have to be lowered is not known without all inferences.
    """
    await lock_sums_shared(connection)
    for level, added in sums.by_level.items():
        rows = sorted(added.items(), key=_time_and_group)
        if rows:
            keys = [[_moment(time) for (time, _), _ in rows], [id for (_, id), _ in rows]]
            await connection.execute(_LOCK[level], *keys)
            await connection.execute(_ADJUST[level], *keys, *_summed_arguments(row for _, row in rows))
    for level, by_subject in sums.by_subject.items():
        subjects = sorted(by_subject.items(), key=_subject_key)
        if subjects:
            keys = [
                *([key.dimension for key, _ in subjects], [key.value for key, _ in subjects]),
                *([_moment(key.time) for key, _ in subjects], [key.group_id for key, _ in subjects]),
            ]
            await connection.execute(_LOCK_SUBJECTS[level], *keys)
            await connection.execute(_ADJUST_SUBJECTS[level], *keys, *_summed_arguments(row for _, row in subjects))


async def load_subjects(connection: Connection, day: int) -> dict[str, set[int]]:
    """Hashes of the subjects that are stored of a day since 1970, by team; within a transaction. See subject_hash()."""
    found: dict[str, set[int]] = {}
    query = "SELECT DISTINCT team_id::text, dimension, value FROM subject_rollups_by_day WHERE time = $1"
    statement = await connection.prepare(query)  # a cursor of the connection itself would name it, and a pooler keep that
    async for row in statement.cursor(_moment(day * SECONDS["day"]), prefetch=1000):
        found.setdefault(row["team_id"], set()).add(subject_hash(row["dimension"], row["value"]))
    return found


def subject_hash(dimension: str, value: str) -> int:
    return hash((dimension, value))


async def _insert_groups(connection: Connection, groups: Mapping[int, Group]) -> None:
    if groups:
        ids = sorted(groups)
        columns = zip(*(groups[id] for id in ids), strict=True)
        await connection.execute(_INSERT_GROUPS, ids, *(list(column) for column in columns))


_Sketches = dict[int, tuple[str, str]]  # the sketches of sums as text, by the identity of the object: several levels have the same ones


def _value_arguments(sums: Sequence[Sums], sketches: _Sketches) -> list[list[Any]]:
    columns: list[list[Any]] = [list(column) for column in zip(*(row.values for row in sums), strict=True)]
    written: list[tuple[str, str]] = []
    for row in sums:
        texts = sketches.get(id(row))
        if texts is None:
            texts = sketches[id(row)] = _array(pack(row.durations)), _array(pack(row.first_tokens))
        written.append(texts)
    return [*columns, [durations for durations, _ in written], [first_tokens for _, first_tokens in written]]


def _summed_arguments(rows: Iterable[Sums]) -> list[list[int]]:
    return [list(column) for column in zip(*(row.values for row in rows), strict=True)]


def _array(numbers: Sequence[int]) -> str:
    """Formats an array as text: Postgres has no arrays of arrays of different lengths."""
    return f"{{{','.join(map(str, numbers))}}}"


def _moment(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


# In a fixed order, so that writers of several machines that add to the same rows do not deadlock.
def _time_and_group(item: tuple[tuple[int, int], Sums]) -> tuple[int, int]:
    return item[0]


def _subject_key(item: tuple[SubjectKey, Sums]) -> SubjectKey:
    return item[0]


def _add_statement(table: str, keys: Mapping[str, str], unique: str) -> str:
    names = [*keys, *SUM_COLUMNS, *MAX_COLUMNS, *SKETCH_COLUMNS]
    types = {**keys, **dict.fromkeys((*SUM_COLUMNS, *MAX_COLUMNS), "bigint"), **dict.fromkeys(SKETCH_COLUMNS, "text")}
    parameters = ", ".join(f"${at}::{types[name]}[]" for at, name in enumerate(names, 1))
    selected = ", ".join(f"{name}::bigint[]" if name in SKETCH_COLUMNS else name for name in names)
    changes = [
        *(f"{name} = stored.{name} + excluded.{name}" for name in SUM_COLUMNS),
        *(f"{name} = greatest(stored.{name}, excluded.{name})" for name in MAX_COLUMNS),
        *(
            f"{name} = CASE WHEN cardinality(stored.{name}) + cardinality(excluded.{name}) > {MAX_ENTRIES}"
            f" THEN merge_sketch(stored.{name} || excluded.{name}) ELSE stored.{name} || excluded.{name} END"
            for name in SKETCH_COLUMNS
        ),
    ]
    return f"""
        INSERT INTO {table} AS stored ({", ".join(names)})
        SELECT {selected} FROM unnest({parameters}) AS added ({", ".join(names)})
        ON CONFLICT ({unique}) DO UPDATE SET {", ".join(changes)}
    """  # noqa: S608


_GROUP_TYPES = {"team_id": "uuid", "key_id": "uuid", "status": "smallint"}
_GROUP_PARAMETERS = ", ".join(f"${at}::{_GROUP_TYPES.get(name, 'text')}[]" for at, name in enumerate(GROUP_COLUMNS, 2))
_INSERT_GROUPS = f"""
    INSERT INTO rollup_groups (id, {", ".join(GROUP_COLUMNS)}) SELECT * FROM unnest($1::bigint[], {_GROUP_PARAMETERS})
    ON CONFLICT DO NOTHING
"""  # noqa: S608
_KEYS = {"time": "timestamptz", "group_id": "bigint"}
_SUBJECT_KEYS = {"dimension": "text", "value": "text", **_KEYS, "team_id": "uuid"}
_ADD = {level: _add_statement(table.name, _KEYS, "time, group_id") for level, table in rollup_tables.items()}
_ADD_SUBJECTS = {
    level: _add_statement(table.name, _SUBJECT_KEYS, "dimension, value, time, group_id") for level, table in subject_rollup_tables.items()
}


def _adjust_statements(table: str, keys: Mapping[str, str]) -> tuple[str, str]:
    """Lock rows, and add to them."""
    names = [*keys, *SUM_COLUMNS, *MAX_COLUMNS]
    key_list, key_types = ", ".join(keys), ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(keys.values(), 1))
    parameters = ", ".join(f"${at}::{keys.get(name, 'bigint')}[]" for at, name in enumerate(names, 1))
    changes = [
        *(f"{name} = stored.{name} + added.{name}" for name in SUM_COLUMNS),
        *(f"{name} = greatest(stored.{name}, added.{name})" for name in MAX_COLUMNS),
    ]
    lock = f"""
        SELECT 1 FROM {table} WHERE ({key_list}) IN (SELECT * FROM unnest({key_types})) ORDER BY {key_list} FOR UPDATE
    """  # noqa: S608
    adjust = f"""
        UPDATE {table} AS stored SET {", ".join(changes)} FROM unnest({parameters}) AS added ({", ".join(names)})
        WHERE {" AND ".join(f"stored.{name} = added.{name}" for name in keys)}
    """  # noqa: S608
    return lock, adjust


_SUBJECT_MATCH = {"dimension": "text", "value": "text", **_KEYS}
_STATEMENTS = {level: _adjust_statements(table.name, _KEYS) for level, table in rollup_tables.items()}
_SUBJECT_STATEMENTS = {level: _adjust_statements(table.name, _SUBJECT_MATCH) for level, table in subject_rollup_tables.items()}
_LOCK, _ADJUST = ({level: pair[at] for level, pair in _STATEMENTS.items()} for at in (0, 1))
_LOCK_SUBJECTS, _ADJUST_SUBJECTS = ({level: pair[at] for level, pair in _SUBJECT_STATEMENTS.items()} for at in (0, 1))
