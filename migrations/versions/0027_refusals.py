"""A sample of refused requests, and views of them; the views of usage leave their counts out."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import UUID

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_OF_GROUP = "g.team_id, t.name AS team, g.key_id, 'nx-' || k.prefix AS key, k.name AS key_name"
_JOINS = "JOIN rollup_groups g ON g.id = r.group_id LEFT JOIN teams t ON t.id = g.team_id LEFT JOIN keys k ON k.id = g.key_id"

# As 0024 has it.
_USAGE = f"""
    {_OF_GROUP}, g.route, g.model, g.function, g.variant, g.provider, g.served_model, g.status, g.outcome, g.error,
    r.requests, r.input_tokens, r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.cost_microusd * 0.000001 AS cost_usd,
    r.estimated_microusd * 0.000001 AS estimated_cost_usd, r.unpriced, r.duration_us / 1000000::float8 AS duration_s,
    r.max_duration_us / 1000000::float8 AS max_duration_s, r.max_cost_microusd * 0.000001 AS max_cost_usd"""

_REFUSED = f"{_OF_GROUP}, g.route, g.model, g.status, g.error, g.rule, r.requests AS refused"

_SAMPLE = """
CREATE VIEW narthex_views.refusals AS
SELECT
    r.id, r.received_at, r.team_id, t.name AS team, r.key_id, 'nx-' || k.prefix AS key, k.name AS key_name,
    'nx-' || r.unknown_key AS unknown_key, r.route, r.model, r.status, r.error, r.code, r.param, r.rule, r.message, r.request_id, r.trace_id
FROM refusals r LEFT JOIN teams t ON t.id = r.team_id LEFT JOIN keys k ON k.id = r.key_id
"""


def upgrade() -> None:
    op.create_table(
        "refusals",
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("team_id", UUID(as_uuid=False)),
        sa.Column("key_id", UUID(as_uuid=False)),
        sa.Column("unknown_key", sa.Text()),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("code", sa.Text()),
        sa.Column("param", sa.Text()),
        sa.Column("rule", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text()) for name in ("message", "request_id", "trace_id")),
        sa.PrimaryKeyConstraint("id", name="refusals_pkey"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("refusals_team_id_id_idx", "refusals", ["team_id", "id"])
    for period in ("hour", "day"):
        source = f"FROM rollups_by_{period} r {_JOINS} WHERE g.outcome"
        for create, name, columns, condition in (
            ("CREATE OR REPLACE", f"usage_by_{period}", _USAGE, "<> 'refused'"),
            ("CREATE", f"refusals_by_{period}", _REFUSED, "= 'refused'"),
        ):
            op.execute(f"{create} VIEW narthex_views.{name} AS SELECT r.time AS {period}, {columns} {source} {condition}")
    op.execute(_SAMPLE)
