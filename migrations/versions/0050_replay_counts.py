"""How many items replays have that have ended, which lists counted again each time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("replays", sa.Column("counts", JSONB(none_as_null=True)))
    op.execute("""
        UPDATE replays SET counts = (
            SELECT jsonb_build_object(
                'pending', count(*) FILTER (WHERE status = 'pending'), 'running', count(*) FILTER (WHERE status = 'running'),
                'done', count(*) FILTER (WHERE status = 'done'), 'refused', count(*) FILTER (WHERE status = 'refused'),
                'retried', count(*) FILTER (WHERE tries > 1), 'reserved', coalesce(sum(reserved_microusd), 0)
            ) FROM replay_items WHERE replay_id = replays.id
        ) WHERE status = 'complete'
    """)
