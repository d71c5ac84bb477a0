"""The limits of a key are found without reading all limits."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("limits_key_idx", "limits", [sa.text("((config -> 'scope') ->> 'key')")])
