"""Charged tokens and cost of inferences, and sums of usage."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SUMS = (
    "requests",
    "failed",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "charged_input",
    "charged_output",
    "cost_microusd",
    "unpriced",
)


def upgrade() -> None:
    # A writer of the previous version keeps no sums, so it must store nothing more: it does not find its positions under another name and
    # keeps retrying, and its spool waits for the new writer. This comes first, as it is what a writer touches first: no writer is in the
    # middle of a transaction while the sums are made.
    op.alter_column("spool_positions", "position", new_column_name="read_to")
    op.create_table(
        "usage",
        sa.Column("key_id", UUID(as_uuid=False), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in SUMS),
        sa.PrimaryKeyConstraint("key_id", "hour", "team_id", "model", name="usage_pkey"),
        postgresql_with={"fillfactor": 70},
    )
    # Earlier records have no charged tokens, so their used tokens stand in for these, and their cost is unknown.
    op.execute("""
        INSERT INTO usage
        SELECT key_id, date_trunc('hour', received_at, 'UTC') AS hour, team_id, model, count(*), count(*) FILTER (WHERE outcome = 'failed'),
            coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
            coalesce(sum(cached_tokens), 0), coalesce(sum(reasoning_tokens), 0),
            coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), 0, count(*)
        FROM inferences GROUP BY key_id, hour, team_id, model
    """)
    op.create_index("usage_team_id_hour_idx", "usage", ["team_id", "hour"])
    op.create_index("usage_hour_idx", "usage", ["hour"])
    # Last: from here on nobody can even read inferences until the commit, and summing up many of them takes minutes.
    op.add_column("inferences", sa.Column("charged_input", sa.Integer()))
    op.add_column("inferences", sa.Column("charged_output", sa.Integer()))
    op.add_column("inferences", sa.Column("cost_microusd", sa.BigInteger()))
