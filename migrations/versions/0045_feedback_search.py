"""How often feedback was looked for, and how far; and episodes of which an erasure reached something, by their hash."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("feedback_pending", sa.Column("searches", sa.SmallInteger, nullable=False, server_default="0"))
    op.add_column("feedback_pending", sa.Column("searched_until", sa.DateTime(timezone=True)))
    op.drop_index("feedback_pending_check_at_idx", "feedback_pending")
    op.create_index("feedback_pending_team_id_check_at_idx", "feedback_pending", ["team_id", "check_at"])
    op.create_index("feedback_pending_team_id_id_idx", "feedback_pending", ["team_id", "id"])
    op.create_table(
        "erased_episodes",
        sa.Column("team_id", UUID(as_uuid=False), primary_key=True),
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("erased_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    op.create_index("erased_episodes_erased_at_idx", "erased_episodes", ["erased_at"])
    op.create_index("erasures_episode_hash_idx", "erasures", ["hash"], postgresql_where=sa.text("kind = 'episode'"))
