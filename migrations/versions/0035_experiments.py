"""Experiments, and the versions of their weights and enrolment.

A version must be committed well before it takes effect. When a transaction began says nothing of that, nor does its last statement: only a
deferred trigger runs as late as the commit. app/store/configuration/experiments/experiments.py has the numbers, and
tests/integration/experiments/test_experiments.py compares them.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("section", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("salt", sa.Text),
        sa.Column("definition", JSONB, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("winner", sa.Text),
    )
    op.create_index("experiments_once", "experiments", ["name"], unique=True, postgresql_where=sa.text("ended_at IS NULL"))
    op.create_index("experiments_salts", "experiments", ["name", "salt"], unique=True, postgresql_where=sa.text("started_at IS NOT NULL"))
    op.create_table(
        "experiment_versions",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("arms", JSONB, nullable=False),
        sa.Column("enrolment", sa.Double, nullable=False),
        sa.Column("effective_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("author", sa.Text, nullable=False),
    )
    op.execute("""
        CREATE FUNCTION experiment_version_lead() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE experiment_versions SET effective_at = clock_timestamp() + interval '12 seconds'
            WHERE experiment_id = NEW.experiment_id AND number = NEW.number AND effective_at < clock_timestamp() + interval '11 seconds';
            RETURN NULL;
        END
        $$
    """)
    op.execute("""
        CREATE CONSTRAINT TRIGGER experiment_versions_lead AFTER INSERT ON experiment_versions
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION experiment_version_lead()
    """)
