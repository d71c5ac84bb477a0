"""Indexes for the lists of a dashboard: what failed, of an end user, what took longest, and what cost most.

Each is a tree in every partition. Storing an inference takes Postgres a few microseconds more, of which most are for the two by amounts.
"""

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("inferences_unanswered_idx", "inferences", ["id", "team_id"], postgresql_where=sa.text("outcome <> 'answered'"))
    op.create_index("inferences_end_user_idx", "inferences", ["end_user", "id"], postgresql_where=sa.text("end_user IS NOT NULL"))
    op.create_index("inferences_duration_us_idx", "inferences", ["duration_us"])
    op.create_index("inferences_cost_microusd_idx", "inferences", ["cost_microusd"], postgresql_where=sa.text("cost_microusd IS NOT NULL"))
