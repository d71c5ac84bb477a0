"""What is kept of the units of experiments, and sums over them. Units of experiments that run already are counted, too."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, UUID

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_RELEVANT = "experiment_unit IS NOT NULL AND (not_enrolled IS NULL OR not_enrolled IN ('pinned', 'ineligible', 'late', 'future'))"


def upgrade() -> None:
    op.create_index("inferences_unit_idx", "inferences", ["experiment_unit", "id"], postgresql_where=sa.text(_RELEVANT))
    op.create_table(
        "touched_units",
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("id", UUID(as_uuid=False), nullable=False),
        sa.Column("enrolled", sa.Boolean, nullable=False),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("episode_kind", sa.Text, nullable=False),
    )
    op.create_table(
        "experiment_units",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("unit", sa.Text, primary_key=True),
        sa.Column("first_id", UUID(as_uuid=False), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("episode_kind", sa.Text, nullable=False),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("excluded", sa.Text),
        sa.Column("inferences", sa.Integer, nullable=False),
        sa.Column("episodes", sa.Integer, nullable=False),
        sa.Column("served_by_other", sa.Integer, nullable=False),
        sa.Column("measured", ARRAY(sa.BigInteger)),
        sa.Column("covariates", ARRAY(sa.BigInteger)),
        sa.Column("slices", ARRAY(sa.Text)),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        postgresql_with={"fillfactor": 85},
    )
    op.create_index("experiment_units_due_idx", "experiment_units", ["due_at"], postgresql_where=sa.text("due_at IS NOT NULL"))
    op.create_table(
        "experiment_sums",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("metric", sa.Text, primary_key=True),
        sa.Column("slice", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("episode_kind", sa.Text, primary_key=True),
        sa.Column("arm", sa.Text, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("n",)),
        *(sa.Column(name, sa.Numeric, nullable=False) for name in ("y", "yy")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("zeros", "ones")),
        *(sa.Column(name, sa.Numeric, nullable=False) for name in ("x", "xx", "xy")),
        sa.Column("capped", sa.BigInteger, nullable=False),
        sa.Column("uncapped", sa.Numeric, nullable=False),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "experiment_counts",
        sa.Column("experiment_id", UUID(as_uuid=False), sa.ForeignKey("experiments.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("episode_kind", sa.Text, primary_key=True),
        sa.Column("arm", sa.Text, primary_key=True),
        sa.Column("day", sa.Date, primary_key=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("units", "excluded", "measured", "complete", "inferences", "episodes", "served_by_other")
        ),
        postgresql_with={"fillfactor": 70},
    )
    units = f"""
        INSERT INTO touched_units (experiment, version, unit, id, enrolled, arm, episode_kind)
        SELECT DISTINCT ON (experiment, experiment_unit, not_enrolled IS NULL)
            experiment, experiment_version, experiment_unit, id, not_enrolled IS NULL, variant, coalesce(episode_kind, '')
        FROM inferences WHERE {_RELEVANT} AND variant IS NOT NULL
        ORDER BY experiment, experiment_unit, not_enrolled IS NULL, id
    """  # noqa: S608
    op.execute(units)
