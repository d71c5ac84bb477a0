"""When requests last matched each limit."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "limit_matches",
        sa.Column("name", sa.Text, sa.ForeignKey("limits.name", ondelete="CASCADE"), primary_key=True),
        sa.Column("matched_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "limit_matches_since",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.execute("INSERT INTO limit_matches_since (id) VALUES (1)")
