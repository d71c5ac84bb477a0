"""Finds what was stored about a unit of an experiment, for erasures."""

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("touched_units_unit_idx", "touched_units", ["unit"])
