"""Engines that registered themselves, and endpoints that get no new requests."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    now = sa.func.now()
    op.create_table(
        "nodes",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("models", postgresql.ARRAY(sa.Text), nullable=False),
        sa.Column("speed", sa.Double),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.Column("renewed_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
    )
    op.create_table(
        "drained_endpoints",
        sa.Column("provider", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("drained_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
    )
