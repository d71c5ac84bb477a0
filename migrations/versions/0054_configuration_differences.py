"""Configurations that served are versions of the history: a snapshot names one, and needs no document. 0055 converts those of before.

What a version from before sums stored is in none: up to an hour later than was said, as its clock was another one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # `since` ends what may be missing in sums. Machines' clocks differ; and where nothing is older, nothing is missing.
    op.execute("""
        UPDATE rollups_since SET since = CASE WHEN EXISTS (
            SELECT FROM inferences
            WHERE id < (lpad(to_hex((extract(epoch FROM since + interval '1 hour') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
        ) THEN since + interval '1 hour' ELSE 'epoch' END
    """)
    op.add_column("snapshots", sa.Column("version", sa.BigInteger))
    op.alter_column("snapshots", "document", nullable=True)
