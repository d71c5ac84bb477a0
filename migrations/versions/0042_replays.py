"""Replays: recorded requests that are answered again by another model or variant, and compared."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("definition", JSONB, nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("key_id", UUID(as_uuid=False), nullable=False),
        sa.Column("created_at", _TIME, nullable=False, server_default=sa.func.now()),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default="running"),
        sa.Column("reason", sa.Text),
        sa.Column("refused", JSONB, nullable=False),
        sa.Column("spent_microusd", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("ended_at", _TIME),
        sa.Column("holder", sa.Text),
        sa.Column("lease", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lease_until", _TIME),
        sa.PrimaryKeyConstraint("id", name="replays_pkey"),
    )
    op.create_index("replays_team_id_idx", "replays", ["team_id"])
    op.create_index("replays_running_idx", "replays", ["id"], postgresql_where=sa.text("status = 'running'"))
    op.create_table(
        "replay_items",
        sa.Column("replay_id", UUID(as_uuid=False), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("original_id", UUID(as_uuid=False), nullable=False),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default="pending"),
        sa.Column("reason", sa.Text),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("inference_id", UUID(as_uuid=False)),
        sa.Column("began_at", _TIME),
        sa.Column("reserved_microusd", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("cost_microusd", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("original", JSONB),
        sa.Column("replayed", JSONB),
        sa.Column("same", sa.Boolean),
        sa.Column("judgement", JSONB),
        sa.PrimaryKeyConstraint("replay_id", "number", name="replay_items_pkey"),
        sa.ForeignKeyConstraint(["replay_id"], ["replays.id"], name="replay_items_replay_id_fkey", ondelete="CASCADE"),
    )
    op.create_index(
        "replay_items_open_idx", "replay_items", ["replay_id", "number"], postgresql_where=sa.text("status IN ('pending', 'running')")
    )
