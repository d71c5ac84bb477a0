"""Rollups by more broad groups: of everything, by outcome, and by key."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None

_COLUMNS = (
    *("team_id", "key_id", "route", "model", "function", "variant", "provider", "served_model", "status", "outcome", "error", "rule"),
)
_KEPT = {"outcome": ("outcome",), "key": ("team_id", "key_id", "outcome")}
_EMPTY: Mapping[str, Any] = {"team_id": None, "key_id": None, "status": 0}
_SUMS = (
    *("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_microusd", "estimated_microusd"),
    *("unpriced", "duration_us"),
)
_MAXIMA = ("max_duration_us", "max_cost_microusd")
_SKETCHES = ("duration_sketch", "first_token_sketch")

# New table, the smallest table of the same periods whose groups it sums up, and by what.
_TABLES = (
    ("rollups_by_hour_and_key", "rollups_by_hour", "key"),
    ("rollups_by_hour_and_outcome", "rollups_by_hour_and_target", "outcome"),
    ("rollups_by_day_and_key", "rollups_by_day", "key"),
    ("rollups_by_day_and_outcome", "rollups_by_day_and_target", "outcome"),
)


def upgrade() -> None:
    connection = op.get_bind()
    # A writer of the version before would store inferences without these sums: without this column it stores nothing, and its spool waits.
    # No earlier version may have had the new name.
    op.alter_column("spool_positions", "stored_end", new_column_name="stored_bytes")
    for breadth in _KEPT:
        _create_broad_groups(connection, breadth)
    for table, source, breadth in _TABLES:
        _create_table(table)
        _create_partitions(connection, table, source)
        _sum_up(table, source, breadth)
    op.execute("DROP TABLE broad_groups_by_outcome, broad_groups_by_key")


def _create_broad_groups(connection: sa.Connection, breadth: str) -> None:
    """The broader groups, and a temporary table of the broader group of each group."""
    selected = ", ".join(f"{name}::text" if name.endswith("_id") else name for name in _COLUMNS)
    groups = connection.execute(sa.text(f"SELECT id, {selected} FROM rollup_groups")).mappings()  # noqa: S608
    broad = {row["id"]: _broad_group(row, breadth) for row in groups}
    names = ", ".join(_COLUMNS)
    types = {"team_id": "uuid", "key_id": "uuid", "status": "smallint"}
    values = ", ".join(f"CAST(:{name} AS {types.get(name, 'text')})" for name in _COLUMNS)
    for group in set(broad.values()):
        connection.execute(
            sa.text(f"INSERT INTO rollup_groups (id, {names}) VALUES (:id, {values}) ON CONFLICT DO NOTHING"),  # noqa: S608
            {"id": _group_id(group), **dict(zip(_COLUMNS, group, strict=True))},
        )
    op.execute(f"CREATE TEMPORARY TABLE broad_groups_by_{breadth} (id bigint PRIMARY KEY, broad bigint NOT NULL)")
    rows = [{"id": id, "broad": _group_id(group)} for id, group in broad.items()]
    if rows:
        connection.execute(sa.text(f"INSERT INTO broad_groups_by_{breadth} VALUES (:id, :broad)"), rows)  # noqa: S608


def _broad_group(row: Mapping[Any, Any], breadth: str) -> tuple[Any, ...]:
    return tuple(row[name] if name in _KEPT[breadth] else _EMPTY.get(name, "") for name in _COLUMNS)


def _group_id(group: Sequence[Any]) -> int:
    """As group_id() in app/store/usage/rollups.py."""
    return int.from_bytes(blake2b(msgspec.msgpack.encode(tuple(group)), digest_size=8).digest(), "big") >> 1


def _create_table(table: str) -> None:
    op.create_table(
        table,
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False, autoincrement=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*_SUMS, *_MAXIMA)),
        *(sa.Column(name, ARRAY(sa.BigInteger()), nullable=False) for name in _SKETCHES),
        sa.PrimaryKeyConstraint("time", "group_id", name=f"{table}_pkey"),
        postgresql_partition_by="RANGE (time)",
    )


def _create_partitions(connection: sa.Connection, table: str, source: str) -> None:
    """As those of `source`, whose names end in their month."""
    partitions = connection.execute(
        sa.text(
            "SELECT relname, pg_get_expr(relpartbound, oid) AS bounds FROM pg_class JOIN pg_inherits ON inhrelid = oid"
            " WHERE inhparent = CAST(:source AS regclass)"
        ),
        {"source": source},
    ).all()
    for row in partitions:
        name = table + row.relname.removeprefix(source)
        op.execute(f"CREATE TABLE {name} PARTITION OF {table} {row.bounds} WITH (fillfactor = 70)")


def _sum_up(table: str, source: str, breadth: str) -> None:
    names = ["time", "group_id", *_SUMS, *_MAXIMA, *_SKETCHES]
    sums = ", ".join([*(f"sum({name})::bigint AS {name}" for name in _SUMS), *(f"max({name}) AS {name}" for name in _MAXIMA)])
    # Postgres adds up no arrays of different lengths, but texts.
    entries = (f"string_to_array(string_agg(nullif(array_to_string({name}, ','), ''), ','), ',')::bigint[]" for name in _SKETCHES)
    sketches = ", ".join(f"merge_sketch(coalesce({each}, '{{}}'))" for each in entries)
    op.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT stored.time, broad.broad, {sums}, {sketches}"  # noqa: S608
        f" FROM {source} AS stored JOIN broad_groups_by_{breadth} AS broad ON broad.id = stored.group_id GROUP BY stored.time, broad.broad"
    )
