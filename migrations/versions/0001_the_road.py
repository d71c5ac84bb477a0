"""Teams, keys, configuration and recorded inferences."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    now = sa.func.now()
    op.create_table(
        "teams",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False, server_default="full"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="teams_pkey"),
        sa.UniqueConstraint("name", name="teams_name_key"),
    )
    op.create_table(
        "keys",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, server_default=""),
        sa.Column("admin", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="keys_pkey"),
        sa.UniqueConstraint("prefix", name="keys_prefix_key"),
        sa.UniqueConstraint("hash", name="keys_hash_key"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="keys_team_id_fkey"),
    )
    for name in ("providers", "models"):
        op.create_table(
            name,
            sa.Column("name", sa.Text(), nullable=False),
            sa.Column("config", JSONB(), nullable=False),
            sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
            sa.PrimaryKeyConstraint("name", name=f"{name}_pkey"),
        )
    op.create_table(
        "directory_version",
        sa.Column("id", sa.SmallInteger(), nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="directory_version_pkey"),
    )
    op.create_table(
        "snapshots",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("document", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("hash", name="snapshots_pkey"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="workers_pkey"),
    )
    op.create_table(
        "inferences",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("episode_id", UUID(as_uuid=False), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("key_id", UUID(as_uuid=False), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("function", sa.Text()),
        sa.Column("variant", sa.Text()),
        sa.Column("served_provider", sa.Text()),
        sa.Column("served_model", sa.Text()),
        sa.Column("endpoint", sa.Text()),
        sa.Column("streamed", sa.Boolean(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("finish_reason", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.Column("input_tokens", sa.Integer()),
        sa.Column("output_tokens", sa.Integer()),
        sa.Column("cached_tokens", sa.Integer()),
        sa.Column("reasoning_tokens", sa.Integer()),
        sa.Column("duration_us", sa.BigInteger(), nullable=False),
        sa.Column("first_token_us", sa.BigInteger()),
        sa.Column("attempts", JSONB()),
        sa.Column("dropped", ARRAY(sa.Text())),
        sa.Column("tags", JSONB()),
        sa.Column("end_user", sa.Text()),
        sa.Column("snapshot", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="inferences_pkey"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("inferences_episode_id_idx", "inferences", ["episode_id"])
    op.create_table(
        "inference_content",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("ask", sa.LargeBinary()),
        sa.Column("reply", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id", name="inference_content_pkey"),
        postgresql_partition_by="RANGE (id)",
    )
    # They arrive compressed: letting Postgres try again would cost more than the insert itself.
    op.execute("ALTER TABLE inference_content ALTER COLUMN ask SET STORAGE EXTERNAL, ALTER COLUMN reply SET STORAGE EXTERNAL")
    op.create_table(
        "spool_positions",
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("spool", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("moved_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("segment", name="spool_positions_pkey"),
    )
