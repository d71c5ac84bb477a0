"""Feedback for analysts, as a view, and whether it is on requests that take part in an experiment."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

# What was written, in comments and demonstrations, is not in it.
_VIEW = """
CREATE VIEW narthex_views.feedback AS
SELECT
    f.id, f.feedback_id, f.action, f.received_at, f.team_id, t.name AS team, f.key_id, 'nx-' || k.prefix AS key, k.name AS key_name,
    f.metric, f.kind, f.level, CASE WHEN f.level = 'inference' THEN f.target_id END AS inference_id,
    CASE WHEN f.level = 'episode' THEN f.target_id END AS episode_id, f.number, f.content, coalesce(f.tags, '{}') AS tags, f.is_current,
    f.matched_at, f.model, f.function, f.variant, f.not_enrolled, f.erased_at
FROM feedback f LEFT JOIN teams t ON t.id = f.team_id LEFT JOIN keys k ON k.id = f.key_id
"""


def upgrade() -> None:
    op.add_column("feedback", sa.Column("not_enrolled", sa.Text))
    op.execute(_VIEW)
