"""Views for analysts: a schema of their own, whose names stay when tables change.

A later migration that changes what a view reads drops the view, changes the table, and creates the view again: who may read it is in the
schema's default privileges. New columns go to the end, by CREATE OR REPLACE VIEW.
"""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

# Partitions are bound by id: a condition on the id spares those of other days, one on `received_at` does not.
_ID_AT = """
CREATE FUNCTION narthex_views.id_at(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(greatest(0, floor(extract(epoch FROM moment) * 1000))::bigint), 12, '0') || '70008000000000000000')::uuid
$$
"""

_INFERENCES = """
CREATE VIEW narthex_views.inferences AS
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
    i.dropped, i.emulated, i.structured_output, i.usage_details, i.trace_id, i.request_id, i.snapshot
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id LEFT JOIN keys k ON k.id = i.key_id
"""

# An inference without `attempts` had one that served.
_ATTEMPTS = """
CREATE VIEW narthex_views.attempts AS
SELECT
    i.id AS inference_id, i.received_at, i.episode_id, i.team_id, t.name AS team,
    regexp_replace(i.model, '^(tensorzero::model_name::)?(narthex::model_name::)?', '') AS model, a.number::int AS number,
    a.attempt->>'provider' AS provider, a.attempt->>'model' AS served_model, a.attempt->>'endpoint' AS endpoint,
    (a.attempt->>'started_us')::bigint / 1000000::float8 AS started_s, (a.attempt->>'duration_us')::bigint / 1000000::float8 AS duration_s,
    (a.attempt->>'first_token_us')::bigint / 1000000::float8 AS first_token_s,
    (a.attempt->>'status')::int AS status, a.attempt->>'error' AS error, a.attempt->>'code' AS code,
    a.attempt->>'request_id' AS provider_request_id, (a.attempt->>'input_tokens')::bigint AS input_tokens,
    (a.attempt->>'output_tokens')::bigint AS output_tokens, (a.attempt->>'cost_microusd')::bigint * 0.000001 AS cost_usd
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id
CROSS JOIN LATERAL jsonb_array_elements(
    CASE
        WHEN i.attempts IS NOT NULL THEN i.attempts
        WHEN i.served_provider IS NULL THEN '[]'
        ELSE jsonb_build_array(jsonb_build_object(
            'provider', i.served_provider, 'model', i.served_model, 'endpoint', i.endpoint, 'duration_us', i.served_us,
            'first_token_us', i.first_token_us, 'input_tokens', i.charged_input, 'output_tokens', i.charged_output,
            'cost_microusd', i.cost_microusd
        ))
    END
) WITH ORDINALITY AS a (attempt, number)
"""

_EPISODES = """
CREATE VIEW narthex_views.episodes AS
SELECT
    i.episode_id AS id, i.team_id, t.name AS team, min(i.received_at) AS began_at,
    max(i.received_at + i.duration_us * interval '1 microsecond') AS ended_at, count(*) AS inferences,
    count(*) FILTER (WHERE i.outcome <> 'answered') AS failed,
    array_agg(DISTINCT regexp_replace(i.model, '^(tensorzero::model_name::)?(narthex::model_name::)?', '')) AS models,
    array_agg(DISTINCT i.end_user) FILTER (WHERE i.end_user IS NOT NULL) AS end_users,
    sum(i.input_tokens) AS input_tokens, sum(i.output_tokens) AS output_tokens, sum(i.cost_microusd) * 0.000001 AS cost_usd,
    count(*) FILTER (WHERE i.cost_microusd IS NULL) AS unpriced, sum(i.duration_us) / 1000000::float8 AS duration_s
FROM inferences i LEFT JOIN teams t ON t.id = i.team_id
GROUP BY i.episode_id, i.team_id, t.name
"""

_GROUP = """
    g.team_id, t.name AS team, g.key_id, 'nx-' || k.prefix AS key, k.name AS key_name, g.route, g.model, g.function, g.variant, g.provider,
    g.served_model, g.status, g.outcome, g.error"""
_SUMS = """
    r.requests, r.input_tokens, r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.cost_microusd * 0.000001 AS cost_usd,
    r.estimated_microusd * 0.000001 AS estimated_cost_usd, r.unpriced, r.duration_us / 1000000::float8 AS duration_s,
    r.max_duration_us / 1000000::float8 AS max_duration_s, r.max_cost_microusd * 0.000001 AS max_cost_usd"""
_JOINS = "JOIN rollup_groups g ON g.id = r.group_id LEFT JOIN teams t ON t.id = g.team_id LEFT JOIN keys k ON k.id = g.key_id"

_USAGE_VIEWS = (
    ("usage_by_hour", "r.time AS hour", "rollups_by_hour r", "true"),
    ("usage_by_day", "r.time AS day", "rollups_by_day r", "true"),
    ("usage_by_end_user", "r.time AS day, r.value AS end_user", "subject_rollups_by_day r", "r.dimension = 'end_user'"),
    ("usage_by_tag", "r.time AS day, substr(r.dimension, 5) AS tag, r.value", "subject_rollups_by_day r", "r.dimension <> 'end_user'"),
)


def upgrade() -> None:
    # A DBA may have created it for an owner who may not create schemas, for whom IF NOT EXISTS fails even then.
    op.execute("DO $$ BEGIN IF to_regnamespace('narthex_views') IS NULL THEN CREATE SCHEMA narthex_views; END IF; END $$")
    for statement in (_ID_AT, _INFERENCES, _ATTEMPTS, _EPISODES):
        op.execute(statement)
    for name, keys, table, condition in _USAGE_VIEWS:
        columns = f"SELECT {keys}, {_GROUP}, {_SUMS}"
        op.execute(f"CREATE VIEW narthex_views.{name} AS {columns} FROM {table} {_JOINS} WHERE {condition}")
