"""Machines whose writer, of an earlier version, may still store inferences of experiments that nobody counts: the next one finds them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

# 0043, since when units are counted, may be of the same upgrade: what was stored since the day before is looked at.
_SPOOLS = """
    INSERT INTO uncounted_spools (spool, stored_in, id)
    SELECT spool, first.stored_in - 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'
    FROM spools CROSS JOIN (
        SELECT least(min(stored_in), pg_snapshot_xmin(pg_current_snapshot())::text::bigint) AS stored_in
        FROM inferences WHERE received_at > now() - interval '1 day'
            AND id >= (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
    ) AS first
    WHERE renewed_at > now() - interval '2 days'
"""


def upgrade() -> None:
    op.create_table(
        "uncounted_spools",
        sa.Column("spool", sa.Text, primary_key=True),
        sa.Column("stored_in", sa.BigInteger, nullable=False),
        sa.Column("id", UUID(as_uuid=False), nullable=False),
    )
    op.execute(_SPOOLS)
