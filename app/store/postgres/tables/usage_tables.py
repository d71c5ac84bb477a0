"""Tables of sums over inferences."""

from typing import Any, Literal, get_args

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from app.store.postgres.tables.base import metadata, now

# Sums over inferences, kept by the writer in the transaction that stores them: the source of truth for costs.
usage = Table(
    "usage",
    metadata,
    Column("key_id", UUID(as_uuid=False), primary_key=True),
    Column("hour", DateTime(timezone=True), primary_key=True),  # the hour in which they were received
    Column("team_id", UUID(as_uuid=False), primary_key=True),
    Column("model", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("charged_input", BigInteger, nullable=False),
    Column("charged_output", BigInteger, nullable=False),
    Column("cost_microusd", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),  # requests whose cost is unknown, and so not in the sum
    Index(None, "team_id", "hour"),
    Index(None, "hour"),
    # Free space on each page: the row of a busy key is updated with every batch, and stays on its page.
    postgresql_with={"fillfactor": 70},
)


# What rollups are grouped by: every combination that occurred. `id`: a hash of the rest. Empty: there is none; a team or key is null where
# it is not known, as in refusals of unknown keys. `model`: the name without prefixes.
rollup_groups = Table(
    "rollup_groups",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("team_id", UUID(as_uuid=False)),
    Column("key_id", UUID(as_uuid=False)),
    Column("route", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("function", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("served_model", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),  # as of inferences, or refused
    Column("error", Text, nullable=False),
    Column("rule", Text, nullable=False),  # the limit that refused
    Index(None, "team_id"),
)


def _rollup_columns() -> tuple[Column[Any], ...]:
    """Sums of a group in a period. Sketches: see app/store/usage/sketches.py."""
    return (
        Column("requests", BigInteger, nullable=False),
        Column("input_tokens", BigInteger, nullable=False),
        Column("output_tokens", BigInteger, nullable=False),
        Column("cached_tokens", BigInteger, nullable=False),
        Column("reasoning_tokens", BigInteger, nullable=False),
        Column("cost_microusd", BigInteger, nullable=False),
        Column("estimated_microusd", BigInteger, nullable=False),  # the part of it that was charged by an estimate
        Column("unpriced", BigInteger, nullable=False),
        Column("duration_us", BigInteger, nullable=False),
        Column("max_duration_us", BigInteger, nullable=False),
        Column("max_cost_microusd", BigInteger, nullable=False),
        Column("duration_sketch", ARRAY(BigInteger), nullable=False),
        Column("first_token_sketch", ARRAY(BigInteger), nullable=False),
    )


# Partitioned by time. `time`: when the minute, hour or day (UTC) begins. Those by outcome, team, target or key are of broader groups: a
# period of them has few rows, so a dashboard's usual questions do not read all groups. See app/store/usage/rollups.py.
RollupLevel = Literal[
    "minute",
    "hour",
    "day",
    "hour_and_outcome",
    "hour_and_team",
    "hour_and_target",
    "hour_and_key",
    "day_and_outcome",
    "day_and_team",
    "day_and_target",
    "day_and_key",
]


_ROLLUP_LEVELS: tuple[RollupLevel, ...] = get_args(RollupLevel)


_SUBJECT_LEVELS: tuple[RollupLevel, ...] = ("hour", "day", "day_and_team")


rollup_tables: dict[RollupLevel, Table] = {
    level: Table(
        f"rollups_by_{level}",
        metadata,
        Column("time", DateTime(timezone=True), primary_key=True),
        Column("group_id", BigInteger, primary_key=True, autoincrement=False),
        *_rollup_columns(),
        postgresql_partition_by="RANGE (time)",
    )
    for level in _ROLLUP_LEVELS
}


# The same by end user (`dimension` end_user) and by tag (tag:NAME).
subject_rollup_tables: dict[RollupLevel, Table] = {
    level: Table(
        f"subject_rollups_by_{level}",
        metadata,
        Column("dimension", Text, primary_key=True),
        Column("value", Text, primary_key=True),
        Column("time", DateTime(timezone=True), primary_key=True),
        Column("group_id", BigInteger, primary_key=True, autoincrement=False),
        Column("team_id", UUID(as_uuid=False), nullable=False),
        *_rollup_columns(),
        Index(None, "time"),
        postgresql_partition_by="RANGE (time)",
    )
    for level in _SUBJECT_LEVELS
}


# One row: inferences that were received before this may be missing in rollups, as an earlier version stored them.
rollups_since = Table(
    "rollups_since",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=now),
)


# Costs of inferences that were computed again. A trace of money: rows stay when the inference expires.
cost_changes = Table(
    "cost_changes",
    metadata,
    Column("run", UUID(as_uuid=False), primary_key=True),  # the recomputation, a UUIDv7
    Column("inference_id", UUID(as_uuid=False), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("author", Text, nullable=False),
    Column("old_cost_microusd", BigInteger),  # null: unknown, as in inferences
    Column("new_cost_microusd", BigInteger),
    Column("old_price", Text),
    Column("new_price", Text),
    Index(None, "inference_id"),
)
