"""Sums by end user and tag, from which an erasure takes its part: it is added to the subject `(erased)`, so that the sums stay complete."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from app.recording.erasure.erasures import dimension_of
from app.recording.erasure.hashes import SqlHash
from app.recording.erasure.orders import Order
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import DAY_MS, Connection
from app.store.postgres.tables import subject_rollup_tables
from app.store.usage.rollups import SECONDS, Level, Period, RollupSums, SubjectKey, add_rollups
from app.store.usage.sketches import pack
from app.store.usage.sums import MAX_COLUMNS, SKETCH_COLUMNS, SUM_COLUMNS, Sums, lock_sums_shared, sums_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_KEY_COLUMNS = ("dimension", "value", "time", "group_id")
_KEY_TYPES = ("text", "text", "timestamptz", "bigint")
_COLUMNS = ", ".join(f"stored.{name}" for name in (*_KEY_COLUMNS, *SUM_COLUMNS, *MAX_COLUMNS, *SKETCH_COLUMNS)) + ", stored.team_id::text"
_KEY_ARGUMENTS = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(_KEY_TYPES, 1))
_MATCH = " AND ".join(f"stored.{name} = wanted.{name}" for name in _KEY_COLUMNS)


async def move_subjects(connection: Connection, by_level: Mapping[Level, Mapping[SubjectKey, Sums]]) -> int:
    """Move what inferences had added to sums of their subjects to ERASED, in the transaction that erases them; returns how many sums.

    Of what others share, the largest duration and cost stay: what they would be without these inferences is not known. What was summed up
    as OTHER names nobody and stays there.
    """
    moved = 0
    await lock_sums_shared(connection)
    for level, parts in by_level.items():
        if not parts:
            continue
        stored = await _lock(connection, level, sorted(parts))
        gone, reduced, erased = list[SubjectKey](), dict[SubjectKey, Sums](), dict[SubjectKey, Sums]()
        for key, sums in stored.items():
            part = parts[key]
            if sums.values[0] <= part.values[0]:  # requests: all of it is theirs
                gone.append(key)
                _add(erased, key, sums)
            else:
                reduced[key] = sums.without(part)
                _add(erased, key, part)
        await _delete(connection, level, gone)
        await _replace(connection, level, reduced)
        await add_rollups(connection, RollupSums({}, {}, {level: erased}), ())
        moved += len(stored)
    return moved


async def sweep_subject(connection: Connection, order: Order, limit: int) -> int:
    """Move sums of the order's subject from before it to ERASED, at most `limit`; returns how many there
    were.

    Only full hours and days before the order are moved: the others may hold later requests, and lose their
    part with the inferences.
    """
    if order.kind == "episode":
        return 0
    moved = 0
    await lock_sums_shared(connection)
    for level in subject_rollup_tables:
        of_team = "" if order.team_id is None else "AND team_id = $5::uuid"
        rows = await connection.fetch(
            f"""
            SELECT {_COLUMNS} FROM {subject_rollup_tables[level].name} AS stored
            WHERE dimension = $1 AND value = $2 AND time < $3 {of_team} ORDER BY {", ".join(_KEY_COLUMNS)} LIMIT $4 FOR UPDATE
            """,  # noqa: S608
            *(dimension_of(order.kind, order.tag), order.value, _begin_of(order.requested_at, level), limit - moved),
            *([] if order.team_id is None else [order.team_id]),
        )
        erased = dict[SubjectKey, Sums]()
        keys = [_key_of(row) for row in rows]
        for key, row in zip(keys, rows, strict=True):
            _add(erased, key, sums_of(row))
        await _delete(connection, level, keys)
        await add_rollups(connection, RollupSums({}, {}, {level: erased}), ())
        moved += len(rows)
        if moved >= limit:
            break
    return moved


async def count_left_sums(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> int:
    """Count the sums of a day that still name the order's subject, by its hash, for requests from before the
    order.
    """
    if order.kind == "episode":
        return 0
    begin, end = (_EPOCH + datetime.timedelta(milliseconds=each * DAY_MS) for each in (day, day + 1))
    left = 0
    for level in subject_rollup_tables:
        of_team = "" if order.team_id is None else "AND team_id = $7::uuid"
        rows = await connection.fetch(
            f"""
            SELECT time, sum(requests)::bigint AS requests, count(*) AS sums FROM {subject_rollup_tables[level].name}
            WHERE time >= $1 AND time < $2 AND dimension = $3 AND {SqlHash.expression("value", "$5", "$6")} = $4 {of_team} GROUP BY time
            """,  # noqa: S608
            *(begin, min(end, order.requested_at), dimension_of(order.kind, order.tag), order.hash, sql_hash.inner, sql_hash.outer),
            *([] if order.team_id is None else [order.team_id]),
        )
        limit = _begin_of(order.requested_at, level)
        for row in rows:
            is_later = row["time"] >= limit and row["requests"] <= await _count_later(connection, order, sql_hash, row["time"], level)
            left += 0 if is_later else row["sums"]
    return left


async def _count_later(connection: Connection, order: Order, sql_hash: SqlHash, time: datetime.datetime, level: Level) -> int:
    """Count the subject's inferences in a period that were received after the order and are in its sums.

    A shadow or a replay is in none: its record has the team that pays, and the tags and user of whose request
    it repeats.
    """
    value = "end_user" if order.kind == "end_user" else "(tags ->> $6::text)"
    values: list[Any] = [*([] if order.tag is None else [order.tag]), *([] if order.team_id is None else [order.team_id])]
    of_team = "" if order.team_id is None else f"AND team_id = ${5 + len(values)}::uuid"
    end = time + datetime.timedelta(seconds=SECONDS[_period(level)])
    return await connection.fetchval(
        f"""
        SELECT count(*) FROM inferences
        WHERE id >= $1::uuid AND received_at < $2 AND origin IS NULL AND {SqlHash.expression(value, "$4", "$5")} = $3 {of_team}
        """,  # noqa: S608
        *(order.before, end, order.hash, sql_hash.inner, sql_hash.outer),
        *values,
    )


async def _lock(connection: Connection, level: Level, keys: Sequence[SubjectKey]) -> dict[SubjectKey, Sums]:
    """The stored sums, locked in the order in which writers add to them."""
    times = [_moment(key.time) for key in keys]
    rows = await connection.fetch(
        f"""
        SELECT {_COLUMNS} FROM {subject_rollup_tables[level].name} AS stored
        JOIN unnest({_KEY_ARGUMENTS}) WITH ORDINALITY AS wanted ({", ".join(_KEY_COLUMNS)}, number) ON {_MATCH}
        WHERE stored.time >= $5 AND stored.time <= $6 ORDER BY number FOR UPDATE OF stored
        """,  # noqa: S608
        *_key_arguments(keys),
        *(min(times), max(times)),
    )
    return {_key_of(row): sums_of(row) for row in rows}


async def _delete(connection: Connection, level: Level, keys: Sequence[SubjectKey]) -> None:
    if keys:
        await connection.execute(
            f"""
            DELETE FROM {subject_rollup_tables[level].name} AS stored
            USING unnest({_KEY_ARGUMENTS}) AS wanted ({", ".join(_KEY_COLUMNS)}) WHERE {_MATCH}
            """,  # noqa: S608
            *_key_arguments(keys),
        )


async def _replace(connection: Connection, level: Level, sums_by_key: Mapping[SubjectKey, Sums]) -> None:
    if not sums_by_key:
        return
    names = (*SUM_COLUMNS, *SKETCH_COLUMNS)
    types = [*("bigint" for _ in SUM_COLUMNS), *("text" for _ in SKETCH_COLUMNS)]
    parameters = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(types, 5))
    changes = ", ".join(f"{name} = wanted.{name}{'::bigint[]' if name in SKETCH_COLUMNS else ''}" for name in names)
    sums = list(sums_by_key.values())
    await connection.execute(
        f"""
        UPDATE {subject_rollup_tables[level].name} AS stored SET {changes}
        FROM unnest({_KEY_ARGUMENTS}, {parameters}) AS wanted ({", ".join((*_KEY_COLUMNS, *names))}) WHERE {_MATCH}
        """,  # noqa: S608
        *_key_arguments(list(sums_by_key)),
        *([each.values[at] for each in sums] for at in range(len(SUM_COLUMNS))),
        *([_array(pack(counts)) for counts in columns] for columns in zip(*((s.durations, s.first_tokens) for s in sums), strict=True)),
    )


def _add(erased: dict[SubjectKey, Sums], key: SubjectKey, sums: Sums) -> None:
    """Add sums to those of ERASED: several values of one tag all go to the same sum."""
    erased.setdefault(key._replace(value=ERASED), Sums()).add(sums)


def _key_of(row: asyncpg.Record) -> SubjectKey:
    return SubjectKey(row["dimension"], row["value"], int(row["time"].timestamp()), row["group_id"], row["team_id"])


def _key_arguments(keys: Sequence[SubjectKey]) -> list[list[Any]]:
    names = [[key.dimension for key in keys], [key.value for key in keys]]
    return [*names, [_moment(key.time) for key in keys], [key.group_id for key in keys]]


def _array(numbers: Sequence[int]) -> str:
    """Return an array as text: Postgres has no arrays of arrays of different lengths."""
    return f"{{{','.join(map(str, numbers))}}}"


def _begin_of(moment: datetime.datetime, level: Level) -> datetime.datetime:
    """The beginning of the hour or day of a moment."""
    seconds = int(moment.timestamp())
    return _moment(seconds - seconds % SECONDS[_period(level)])


def _period(level: Level) -> Period:
    return "hour" if level.startswith("hour") else "day"


def _moment(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
