"""Other amounts of limits, for one subject, until a time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "limit_overrides",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("limit_name", sa.Text, sa.ForeignKey("limits.name", ondelete="CASCADE"), nullable=False),
        sa.Column("subject", JSONB, nullable=False),
        sa.Column("amount", sa.Double, nullable=False),
        sa.Column("resource", sa.Text, nullable=False),
        sa.Column("per", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
    )
    op.create_index("limit_overrides_limit_name_idx", "limit_overrides", ["limit_name"])
    op.create_index(
        "limit_overrides_once", "limit_overrides", ["limit_name", "subject"], unique=True, postgresql_where=sa.text("ended_at IS NULL")
    )
