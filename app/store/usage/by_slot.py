"""Recent usage by slots of time, of all subjects at once: what the windows of limits had counted before Redis lost its memory."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

import asyncpg
from msgspec import Struct

from app.domain import uuid7
from app.domain.snapshot import Snapshot
from app.store.postgres.database import connect
from app.store.usage.counted_models import NAME_PREFIX_PATTERN, counted_models, first_tries

# A request that runs for longer is not settled in Redis any more: see batch.lua, which keeps a reservation for as long.
MAX_REQUEST_MS = 7_200_000
# How far a gateway's clock may be from Redis's: more than `narthex doctor` accepts.
_CLOCK_MARGIN_MS = 5_000
_SLOTS = 17
_TIMEOUT_S = 300.0  # of millions of requests
_ROWS_PER_FETCH = 200  # between two fetches the event loop serves requests
_LOCK = "hashtext('narthex usage by slot')"


class SlotUsage(Struct, frozen=True):
    """The usage of ended requests in a slot: a sixteenth of a window, counted from 1970."""

    slot: int
    requests: int
    input: int
    output: int
    cost_microusd: int


Subject = tuple[str, ...]


class UsageBySlot:
    """Reads from one snapshot of the database, in the transaction of open_usage_by_slot()."""

    def __init__(self, connection: "asyncpg.Connection[Any]") -> None:
        self._connection = connection

    async def read(
        self, dimensions: Sequence[str], window_ms: int, before_ms: int, snapshot: Snapshot
    ) -> AsyncIterator[tuple[Subject, list[SlotUsage]]]:
        """Each subject with usage in the window that ended at `before_ms`: its values of `dimensions`, and an upper bound for each slot.

        The time at which a request was admitted is not recorded, and what it used beyond its estimate counted at its end: all of it is in
        the slot of its end, which passes last. Under a model that is another's fallback, that a function uses or that is an arm, what may
        have been reserved there counts too.
        Raises one of DB_UNAVAILABLE_ERRORS.
        """
        query, arguments = _query(dimensions, snapshot)
        width_ms = window_ms / 16
        oldest_slot = int(before_ms // width_ms) - _SLOTS + 1
        from_ms = int(oldest_slot * width_ms) - _CLOCK_MARGIN_MS - MAX_REQUEST_MS
        statement = await self._connection.prepare(query)  # a cursor of the connection itself would name it, and a pooler keep that
        rows = statement.cursor(
            uuid7.lowest_at(from_ms),
            uuid7.lowest_at(before_ms + _CLOCK_MARGIN_MS + 1),
            float(before_ms),
            width_ms,
            oldest_slot,
            *arguments,
            prefetch=_ROWS_PER_FETCH,
        )
        count = len(dimensions)
        subject: Subject | None = None
        slots: list[SlotUsage] = []
        async for row in rows:
            values = tuple(row)
            if values[:count] != subject:
                if subject is not None:
                    yield subject, slots
                subject, slots = values[:count], []
            slots.append(SlotUsage(*map(int, values[count:])))
        if subject is not None:
            yield subject, slots


@contextlib.asynccontextmanager
async def open_usage_by_slot(database_url: str) -> AsyncGenerator[UsageBySlot | None]:
    """A reader; None: another process has one. Raises one of DB_UNAVAILABLE_ERRORS."""
    connection = await connect(database_url, _TIMEOUT_S)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            is_alone = await connection.fetchval(f"SELECT pg_try_advisory_xact_lock({_LOCK})")
            yield UsageBySlot(connection) if is_alone else None
    finally:
        await connection.close()


def _query(dimensions: Sequence[str], snapshot: Snapshot) -> tuple[str, list[Any]]:
    arguments: list[Any] = []

    def parameter(value: Any, kind: str) -> str:
        arguments.append(value)
        return f"${len(arguments) + 5}::{kind}"

    columns: list[str] = []
    joins = ""
    for dimension in dimensions:
        match dimension:
            case "key":
                joins += " JOIN keys ON keys.id = inferences.key_id"
                columns.append("coalesce(keys.counts_as, keys.prefix)")
            case "team":
                joins += " JOIN teams ON teams.id = inferences.team_id"
                columns.append("teams.name")
            case "model":
                joins += _model_join(snapshot, parameter)
                columns.append("counted.counts_as")
            case "function":
                columns.append("inferences.function")
            case "shadow":
                columns.append("inferences.shadow")
            case _ if dimension.startswith("tag:"):  # a shadow counts for none of the tags of the request that it repeats
                tag = f"inferences.tags ->> {parameter(dimension.removeprefix('tag:'), 'text')}"
                columns.append(f"CASE WHEN inferences.shadow IS NULL THEN {tag} END")
            case _:
                raise ValueError(f"There is no dimension {dimension!r}")
    named = "".join(f"{column} AS subject{index}, " for index, column in enumerate(columns))
    subject = "".join(f"subject{index}, " for index in range(len(columns)))
    present = "".join(f" AND subject{index} IS NOT NULL" for index in range(len(columns)))
    ended_ms = "extract(epoch FROM received_at)::float8 * 1000 + duration_us / 1000.0::float8"
    query = f"""
        SELECT {subject}slot, count(*), sum(input), sum(output), sum(cost)
        FROM (
            SELECT {named}
                floor(least({ended_ms} + {_CLOCK_MARGIN_MS}, $3::float8) / $4::float8)::bigint AS slot,
                coalesce(charged_input, input_tokens, 0)::bigint AS input,
                coalesce(charged_output, output_tokens, 0)::bigint AS output,
                coalesce(cost_microusd, 0)::bigint AS cost
            FROM inferences{joins}
            WHERE inferences.id >= $1::uuid AND inferences.id < $2::uuid
        ) AS used
        WHERE slot >= $5::bigint{present}
        GROUP BY {subject}slot ORDER BY {subject}slot
    """  # noqa: S608
    return query, arguments


def _model_join(snapshot: Snapshot, parameter: Callable[[Any, str], str]) -> str:
    """The models under which a request counted: the one that it names, or its variant's; and each other one that may have been tried."""
    counted, first = list(counted_models(snapshot)), list(first_tries(snapshot))
    targets = [(name, target.provider, target.model) for name, model in snapshot.models.items() for target in model.targets]

    def unnest(rows: Sequence[tuple[str, ...]], width: int) -> str:
        return ", ".join(parameter([row[index] for row in rows], "text[]") for index in range(width))

    return f"""
        JOIN unnest({unnest(counted, 2)}) AS counted (name, counts_as)
            ON counted.name = regexp_replace(inferences.model, '^{NAME_PREFIX_PATTERN}', '')
            AND (counted.counts_as = counted.name OR inferences.attempts IS NOT NULL
                OR (counted.name, inferences.variant, counted.counts_as) IN (SELECT * FROM unnest({unnest(first, 3)}))
                OR (counted.counts_as, inferences.served_provider, inferences.served_model) IN (
                    SELECT * FROM unnest({unnest(targets, 3)})
                ))"""  # noqa: S608
