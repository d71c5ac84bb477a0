"""Erasures: orders to erase what was recorded of somebody, and which records were erased."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("erased_at", sa.DateTime(timezone=True)))
    op.create_table(
        "erasures",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False, unique=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("tag", sa.Text),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("team_id", UUID(as_uuid=False)),
        sa.Column("keep_tags", ARRAY(sa.Text), nullable=False),
        sa.Column("reference", sa.Text),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("position", JSONB(none_as_null=True)),
        sa.Column("counts", JSONB, nullable=False, server_default="{}"),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", sa.Text),
        sa.Column("completed_at", sa.DateTime(timezone=True)),
    )
    op.create_index("erasures_open_idx", "erasures", ["next_at"], postgresql_where=sa.text("completed_at IS NULL"))
    op.create_table(
        "erasure_arrivals",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("erasure_id", UUID(as_uuid=False), nullable=False),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("clock_timestamp()")),
    )
    op.create_table(
        "erasure_keys",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
    )
