"""The price used for an inference, the host's own cost, and what else is needed to price it again."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("price", sa.Text))
    op.add_column("inferences", sa.Column("host_cost_microusd", sa.BigInteger))
    op.add_column("inferences", sa.Column("served_us", sa.BigInteger))
    op.add_column("inferences", sa.Column("charges", postgresql.JSONB))
