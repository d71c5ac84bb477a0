"""Indexes for the list of keys: by when they were created, and the limits of each. Sign-ins that have begun are not stored here."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("limits_key_idx", "limits", [sa.text("((config -> 'scope') ->> 'key')")])
    op.create_index("keys_created_at_id_idx", "keys", ["created_at", "id"])
    op.drop_table("sign_in_attempts")  # browsers and commands keep them
