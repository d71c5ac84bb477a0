"""Priorities of teams and keys."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("teams", sa.Column("priority", sa.SmallInteger, nullable=False, server_default="0"))
    op.add_column("keys", sa.Column("priority", sa.SmallInteger))
