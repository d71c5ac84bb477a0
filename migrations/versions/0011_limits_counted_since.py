"""Since when each limit has counted what it counts, which tells a new limit from one whose count was lost."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("limits", sa.Column("counted_since", sa.DateTime(timezone=True)))
