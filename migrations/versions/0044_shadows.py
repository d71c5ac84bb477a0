"""Shadows: of which function or model, whose content it is, and whether the responses are the same."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_VIEW = """
CREATE OR REPLACE VIEW narthex_views.inferences AS
SELECT
    i.id, i.received_at, i.episode_id, i.team_id, t.name AS team, i.key_id, 'nx-' || k.prefix AS key, k.name AS key_name, i.end_user,
    coalesce(i.tags, '{}') AS tags, i.route,
    regexp_replace(i.model, '^(tensorzero::model_name::)?(narthex::model_name::)?', '') AS model, i.function, i.variant,
    i.served_provider AS provider, i.served_model, i.reported_model, i.streamed, i.status, i.outcome, i.finish_reason, i.error,
    i.input_tokens, i.output_tokens, i.cached_tokens, i.reasoning_tokens,
    i.cost_microusd * 0.000001 AS cost_usd, coalesce(i.charge_basis <> 'reported', false) AS cost_is_estimated, i.price,
    i.host_cost_microusd * 0.000001 AS host_cost_usd,
    i.duration_us / 1000000::float8 AS duration_s, i.first_token_us / 1000000::float8 AS first_token_s,
    i.served_us / 1000000::float8 AS served_s,
    coalesce(jsonb_array_length(i.attempts), CASE WHEN i.served_provider IS NULL THEN 0 ELSE 1 END) AS attempts,
    i.dropped, i.emulated, i.structured_output, i.usage_details, i.trace_id, i.request_id, i.snapshot, i.episode_name,
    i.served_variant, i.experiment, i.experiment_version, i.not_enrolled, i.arm_probability, i.experiment_unit, i.episode_kind,
    i.origin, i.original_id, i.replay_id, i.shadow, c.name AS content_team, i.shadow_first_turn, i.shadow_same
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id LEFT JOIN keys k ON k.id = i.key_id LEFT JOIN teams c ON c.id = i.content_team_id
"""


def upgrade() -> None:
    op.add_column("inferences", sa.Column("shadow", sa.Text))
    op.add_column("inferences", sa.Column("content_team_id", UUID(as_uuid=False)))
    op.add_column("inferences", sa.Column("shadow_first_turn", sa.Boolean))
    op.add_column("inferences", sa.Column("shadow_same", sa.Boolean))
    op.create_index("inferences_shadow_idx", "inferences", ["shadow", "id"], postgresql_where=sa.text("shadow IS NOT NULL"))
    op.execute(_VIEW)
