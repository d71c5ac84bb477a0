"""Feedback of callers on inferences and episodes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("feedback_id", UUID(as_uuid=False), nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("key_id", UUID(as_uuid=False), nullable=False),
        sa.Column("metric", sa.Text),
        sa.Column("kind", sa.Text),
        sa.Column("level", sa.Text),
        sa.Column("target_id", UUID(as_uuid=False)),
        sa.Column("value", JSONB),
        sa.Column("number", sa.Double),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("tags", JSONB),
        sa.Column("is_current", sa.Boolean, nullable=False),
        sa.Column("matched_at", sa.DateTime(timezone=True)),
        sa.Column("model", sa.Text),
        sa.Column("function", sa.Text),
        sa.Column("variant", sa.Text),
        sa.Column("erased_at", sa.DateTime(timezone=True)),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("feedback_feedback_id_id_idx", "feedback", ["feedback_id", "id"])
    op.create_index("feedback_target_id_metric_key_id_id_idx", "feedback", ["target_id", "metric", "key_id", "id"])
    op.create_index("feedback_current_id_idx", "feedback", ["feedback_id"], postgresql_where=sa.text("is_current"))
    op.create_index(
        "feedback_current_target_idx",
        "feedback",
        ["target_id", "metric", "key_id"],
        postgresql_where=sa.text("is_current AND number IS NOT NULL"),
    )
    op.create_table(
        "feedback_pending",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("target_id", UUID(as_uuid=False), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("check_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("feedback_pending_check_at_idx", "feedback_pending", ["check_at"])
    op.create_index("feedback_pending_target_id_idx", "feedback_pending", ["target_id"])
    op.create_index("feedback_pending_received_at_idx", "feedback_pending", ["received_at"])
