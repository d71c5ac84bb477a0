"""Rules of teams for the content policy `masked`."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("teams", sa.Column("mask", JSONB(none_as_null=True)))
