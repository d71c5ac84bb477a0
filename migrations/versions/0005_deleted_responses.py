"""Responses that their callers deleted."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deleted_responses",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="deleted_responses_pkey"),
    )
