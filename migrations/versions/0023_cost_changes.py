"""The history of costs that were computed again."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cost_changes",
        sa.Column("run", UUID(as_uuid=False), primary_key=True),
        sa.Column("inference_id", UUID(as_uuid=False), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("old_cost_microusd", sa.BigInteger),
        sa.Column("new_cost_microusd", sa.BigInteger),
        sa.Column("old_price", sa.Text),
        sa.Column("new_price", sa.Text),
    )
    op.create_index("cost_changes_inference_id_idx", "cost_changes", ["inference_id"])
