"""As what limits count a key that replaced another, and a limit that was renamed; and which limits a file has had."""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Keys that were rotated before have copies of their limits, and go on with these.
    op.add_column("keys", sa.Column("counts_as", sa.Text))
    op.create_index("keys_counts_as_idx", "keys", ["counts_as"], postgresql_where=sa.text("counts_as IS NOT NULL"))
    op.add_column("limits", sa.Column("counts_as", sa.Text))
    op.add_column("limits", sa.Column("in_file", sa.Boolean, nullable=False, server_default="false"))
    # Those that came with a key over the admin API have names of their own, unless they were given others.
    op.execute("""
        UPDATE limits SET in_file = true
        WHERE starts_with(name, (config -> 'scope' ->> 'key') || '-') IS NOT TRUE
    """)
