"""Fields that may be dropped from the requests of a team or of a key."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("teams", "keys"):
        op.add_column(table, sa.Column("drop", ARRAY(sa.Text)))
