"""The trace that a request belongs to, and the caller's own id of it."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inferences", sa.Column("trace_id", sa.Text))
    op.add_column("inferences", sa.Column("parent_span_id", sa.Text))
    op.add_column("inferences", sa.Column("sampled", sa.Boolean))
    op.add_column("inferences", sa.Column("request_id", sa.Text))
