"""How the constraint on a response was met."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("guided", sa.Text))
