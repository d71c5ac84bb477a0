"""Full-text search: which teams have it, and the words of their inferences."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR, UUID

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("teams", sa.Column("search", sa.Boolean(), nullable=False, server_default="false"))
    op.create_index("teams_search_idx", "teams", ["id"], postgresql_where=sa.text("search"))
    op.create_table(
        "inference_texts",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("team_id", UUID(as_uuid=False), nullable=False),
        sa.Column("words", TSVECTOR, nullable=False),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("inference_texts_team_id_id_idx", "inference_texts", ["team_id", "id"])
