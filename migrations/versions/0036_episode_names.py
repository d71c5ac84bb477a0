"""The text that a caller names its episode by.

Without an index: the episode's id follows from the text and the team.
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

# As in 0024, with the new column at the end.
_INFERENCES = """
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
    i.dropped, i.emulated, i.structured_output, i.usage_details, i.trace_id, i.request_id, i.snapshot, i.episode_name
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id LEFT JOIN keys k ON k.id = i.key_id
"""

_EPISODES = """
CREATE OR REPLACE VIEW narthex_views.episodes AS
SELECT
    i.episode_id AS id, i.team_id, t.name AS team, min(i.received_at) AS began_at,
    max(i.received_at + i.duration_us * interval '1 microsecond') AS ended_at, count(*) AS inferences,
    count(*) FILTER (WHERE i.outcome <> 'answered') AS failed,
    array_agg(DISTINCT regexp_replace(i.model, '^(tensorzero::model_name::)?(narthex::model_name::)?', '')) AS models,
    array_agg(DISTINCT i.end_user) FILTER (WHERE i.end_user IS NOT NULL) AS end_users,
    sum(i.input_tokens) AS input_tokens, sum(i.output_tokens) AS output_tokens, sum(i.cost_microusd) * 0.000001 AS cost_usd,
    count(*) FILTER (WHERE i.cost_microusd IS NULL) AS unpriced, sum(i.duration_us) / 1000000::float8 AS duration_s,
    max(i.episode_name) AS name
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id
GROUP BY i.episode_id, i.team_id, t.name
"""


def upgrade() -> None:
    op.add_column("inferences", sa.Column("episode_name", sa.Text))
    op.execute(_INFERENCES)
    op.execute(_EPISODES)
