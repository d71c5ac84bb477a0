"""How certain the charged usage of an inference is."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("charge_basis", sa.Text))
