"""Webhooks: who is notified of budgets, events, and their deliveries."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, UUID

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("id", UUID(as_uuid=False), nullable=False, unique=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("encrypted", sa.Text, nullable=False),
        sa.Column("thresholds", ARRAY(sa.Integer), nullable=False),
        sa.Column("budgets", ARRAY(sa.Text)),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default="true"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_table(
        "webhook_events",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("once", sa.LargeBinary, unique=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("webhook_events_created_at_idx", "webhook_events", ["created_at"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("webhook_id", UUID(as_uuid=False), sa.ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
        sa.Column("event_id", UUID(as_uuid=False), sa.ForeignKey("webhook_events.id", ondelete="CASCADE"), nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default="pending"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("attempted_at", sa.DateTime(timezone=True)),
        sa.Column("response_status", sa.Integer),
        sa.Column("error", sa.Text),
    )
    op.create_index("webhook_deliveries_webhook_id_id_idx", "webhook_deliveries", ["webhook_id", "id"])
    op.create_index("webhook_deliveries_event_id_idx", "webhook_deliveries", ["event_id"])
    op.create_index("webhook_deliveries_due_idx", "webhook_deliveries", ["next_attempt_at"], postgresql_where=sa.text("status = 'pending'"))
