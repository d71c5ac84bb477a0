"""Rollups of inferences by minute, hour and day, and until when each spool is stored."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, UUID

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_SUMS = (
    *("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_microusd", "estimated_microusd"),
    *("unpriced", "duration_us", "max_duration_us", "max_cost_microusd"),
)

# Adds up the entries of the same bucket; an entry is bucket << 40 | count.
_MERGE_SKETCH = """
CREATE FUNCTION merge_sketch(sketch bigint[]) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(
        SELECT (entry >> 40) << 40 | sum(entry & 1099511627775)::bigint
        FROM unnest(sketch) AS entry GROUP BY entry >> 40 ORDER BY entry >> 40
    );
END
$$
"""


def upgrade() -> None:
    op.execute(_MERGE_SKETCH)
    op.create_table(
        "rollup_groups",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("team_id", UUID(as_uuid=False)),
        sa.Column("key_id", UUID(as_uuid=False)),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("route", "model", "function", "variant", "provider", "served_model")),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("outcome", "error", "rule")),
        sa.PrimaryKeyConstraint("id", name="rollup_groups_pkey"),
    )
    op.create_index("rollup_groups_team_id_idx", "rollup_groups", ["team_id"])
    for level in ("minute", "hour", "day"):
        op.create_table(
            f"rollups_by_{level}",
            sa.Column("time", sa.DateTime(timezone=True), nullable=False),
            sa.Column("group_id", sa.BigInteger(), nullable=False, autoincrement=False),
            *_sum_columns(),
            sa.PrimaryKeyConstraint("time", "group_id", name=f"rollups_by_{level}_pkey"),
            postgresql_partition_by="RANGE (time)",
        )
    for level in ("hour", "day"):
        op.create_table(
            f"subject_rollups_by_{level}",
            sa.Column("dimension", sa.Text(), nullable=False),
            sa.Column("value", sa.Text(), nullable=False),
            sa.Column("time", sa.DateTime(timezone=True), nullable=False),
            sa.Column("group_id", sa.BigInteger(), nullable=False, autoincrement=False),
            sa.Column("team_id", UUID(as_uuid=False), nullable=False),
            *_sum_columns(),
            sa.PrimaryKeyConstraint("dimension", "value", "time", "group_id", name=f"subject_rollups_by_{level}_pkey"),
            postgresql_partition_by="RANGE (time)",
        )
        op.create_index(f"subject_rollups_by_{level}_time_idx", f"subject_rollups_by_{level}", ["time"])
    op.create_table(
        "spools",
        sa.Column("spool", sa.Text(), nullable=False),
        sa.Column("stored_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("spool", name="spools_pkey"),
    )
    op.create_table(
        "rollups_since",
        sa.Column("id", sa.SmallInteger(), nullable=False, autoincrement=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="rollups_since_pkey"),
    )
    # A writer of an older version would store inferences without their sums: without this column it stores nothing, and its spool waits.
    op.alter_column("spool_positions", "read_to", new_column_name="stored_to")
    op.execute("INSERT INTO rollups_since VALUES (1, clock_timestamp())")  # now() is before the lock was waited for


def _sum_columns() -> list[sa.Column[object]]:
    return [
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS),
        *(sa.Column(name, ARRAY(sa.BigInteger()), nullable=False) for name in ("duration_sketch", "first_token_sketch")),
    ]
