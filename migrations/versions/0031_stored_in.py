"""In which transaction an inference was stored, so that new ones are found as they are stored, each once.

Ids are in the order in which requests came, and long ones are stored late. The default is set by Postgres: writers of an earlier version
store it, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # In two steps: with a default of its own, a new column would be written into every row that there is.
    op.add_column("inferences", sa.Column("stored_in", sa.BigInteger))
    op.alter_column("inferences", "stored_in", server_default=sa.text("((pg_current_xact_id())::text)::bigint"))
    op.create_index("inferences_stored_in_idx", "inferences", ["stored_in"], postgresql_where=sa.text("stored_in IS NOT NULL"))
