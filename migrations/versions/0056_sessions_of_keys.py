"""Sessions of browsers that signed in with an admin key, beside those of people: the dashboard keeps no key."""

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.alter_column("admin_tokens", "principal_id", nullable=True)
    op.add_column("admin_tokens", sa.Column("key_id", sa.UUID(), sa.ForeignKey("keys.id", ondelete="CASCADE")))
    op.create_index("admin_tokens_key_id_idx", "admin_tokens", ["key_id"])
    op.create_check_constraint("admin_tokens_one_holder", "admin_tokens", "(principal_id IS NULL) <> (key_id IS NULL)")
