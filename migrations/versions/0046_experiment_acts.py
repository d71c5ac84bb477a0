"""What the gateway and people have done to experiments by their results, each with its evidence. Append-only, as the audit log is."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiment_acts",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("arm", sa.Text),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("evidence", JSONB, nullable=False),
        sa.Column("before", JSONB, nullable=False),
        sa.Column("after", JSONB, nullable=False),
        sa.Column("version", sa.BigInteger),
    )
    op.create_index("experiment_acts_experiment_id_id_idx", "experiment_acts", ["experiment_id", "id"])
    op.execute("""
        CREATE FUNCTION narthex_experiment_acts_refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'the log of an experiment is append-only';
        END $$
    """)
    op.execute(
        "CREATE TRIGGER experiment_acts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON experiment_acts"
        " FOR EACH STATEMENT EXECUTE FUNCTION narthex_experiment_acts_refuse_changes()"
    )
