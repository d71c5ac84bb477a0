"""The fields that the gateway honoured itself, as the target could not."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("emulated", postgresql.ARRAY(sa.Text)))
