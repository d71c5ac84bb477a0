"""Which version of the keys each gateway process has taken over."""

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("keys_version", sa.BigInteger()))
