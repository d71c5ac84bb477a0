"""What is known of the feedback on units from before an experiment."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

# Units of experiments that run by now were measured without.
_FINISHED = """
    INSERT INTO pre_period_scans (experiment_id, after, finished_at, means)
    SELECT id, id, now(), '{}' FROM experiments WHERE started_at IS NOT NULL
"""


def upgrade() -> None:
    op.create_table(
        "pre_period_feedback",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("unit", sa.Text, primary_key=True),
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("total", sa.Numeric, nullable=False),
    )
    op.create_table(
        "pre_period_scans",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("after", UUID(as_uuid=False), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("means", JSONB),
    )
    op.execute(_FINISHED)
