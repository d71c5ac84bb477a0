"""Tables of experiments: their versions, units and sums."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.store.postgres.tables.base import metadata, now

# Of each (name, salt) one that has started, and of each name at most one that has not ended. A draft has no salt unless it is given.
experiments = Table(
    "experiments",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text, nullable=False),
    Column("section", Text, nullable=False),  # models | functions
    Column("owner", Text, nullable=False),  # the model or function that has it
    Column("salt", Text),
    Column("definition", JSONB, nullable=False),  # what the start freezes: arms, unit, control, eligible, holdout, layer, slots
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("started_at", DateTime(timezone=True)),  # null: a draft
    Column("ended_at", DateTime(timezone=True)),
    Column("winner", Text),  # the arm that serves since it has ended; null: the control
    Index("experiments_once", "name", unique=True, postgresql_where=text("ended_at IS NULL")),
    Index("experiments_salts", "name", "salt", unique=True, postgresql_where=text("started_at IS NOT NULL")),
)


# In force at a time is the version with the highest number of those that are effective by then. A trigger that runs as the transaction is
# committed moves `effective_at` on if it would be less than the lead away.
experiment_versions = Table(
    "experiment_versions",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # one by one for all experiments of a name
    Column("arms", JSONB, nullable=False),
    Column("enrolment", Double, nullable=False),
    Column("effective_at", DateTime(timezone=True), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("author", Text, nullable=False),
)


# Units about which something was stored since they were last counted: of a batch's inferences, or of feedback. The writers append, and
# whoever counts takes rows away (app/results/units). Erasures look for units, also while many rows wait.
touched_units = Table(
    "touched_units",
    metadata,
    Column("experiment", Text, nullable=False),  # its name, which with the version says which experiment it is
    Column("version", Integer, nullable=False),
    Column("unit", Text, nullable=False),  # as inferences.experiment_unit
    Column("id", UUID(as_uuid=False), nullable=False),  # the inference that it is about, of several the first
    Column("enrolled", Boolean, nullable=False),  # that inference takes part: it may be the unit's first
    Column("arm", Text, nullable=False),
    Column("episode_kind", Text, nullable=False),  # empty: the unit is no episode
    Index("touched_units_unit_idx", "unit"),
)


# Units of experiments, and what of them is in the sums. They go some time after the end of their experiment, while sums stay.
experiment_units = Table(
    "experiment_units",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("unit", Text, primary_key=True),  # as inferences.experiment_unit; a random one once that was erased
    Column("first_id", UUID(as_uuid=False), nullable=False),  # its first inference that takes part, from which its window counts
    Column("version", Integer, nullable=False),  # of that inference, as the two that follow
    Column("episode_kind", Text, nullable=False),  # empty: the unit is no episode
    Column("arm", Text, nullable=False),
    Column("state", Text, nullable=False),  # open | measured (its window is over) | complete (feedback on it, too)
    Column("excluded", Text),  # why the unit does not count: a not_enrolled of one of its inferences, or erased
    Column("inferences", Integer, nullable=False),  # in its window, as what follows
    Column("episodes", Integer, nullable=False),
    Column("served_by_other", Integer, nullable=False),  # inferences that another arm answered
    Column("measured", ARRAY(BigInteger)),  # its value of each metric, in the order of the experiment's; null: it has none
    Column("covariates", ARRAY(BigInteger)),  # of each metric its mean before the experiment; null: there are none
    Column("slices", ARRAY(Text)),  # its value of each tag by which results are shown
    Column("due_at", DateTime(timezone=True)),  # when it is to be counted, or counted again; null: nothing is to come
    Index("experiment_units_due_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    postgresql_with={"fillfactor": 85},
)


# The feedback on units that return in the days before their experiment, from which the feedback in it is expected.
pre_period_feedback = Table(
    "pre_period_feedback",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("unit", Text, primary_key=True),  # as inferences.experiment_unit, whether or not it takes part
    Column("metric", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("total", Numeric, nullable=False),  # of their values, in millionths
)


# How far the search for these is. An experiment without a row has yet to be looked at.
pre_period_scans = Table(
    "pre_period_scans",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("after", UUID(as_uuid=False), nullable=False),  # the last feedback that was looked at
    Column("finished_at", DateTime(timezone=True)),  # null: it goes on, and units of the experiment wait for it
    Column("means", JSONB),  # by metric the mean over units, in millionths; null: it is not finished
)


# Sums over units that are measured: of a metric over all of an arm (`slice` and `value` empty), and over those with a value of a tag.
# All are exact: integers in millionths of the metric's own unit, of tokens in tokens.
experiment_sums = Table(
    "experiment_sums",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("slice", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("episode_kind", Text, primary_key=True),
    Column("arm", Text, primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("y", Numeric, nullable=False),
    Column("yy", Numeric, nullable=False),
    Column("zeros", BigInteger, nullable=False),
    Column("ones", BigInteger, nullable=False),
    Column("x", Numeric, nullable=False),
    Column("xx", Numeric, nullable=False),
    Column("xy", Numeric, nullable=False),
    Column("capped", BigInteger, nullable=False),  # units whose value is above the cap, which counts instead
    Column("uncapped", Numeric, nullable=False),  # the sum of values without the cap
    postgresql_with={"fillfactor": 70},
)


# Units of an arm by the day (UTC) of their first inference.
experiment_counts = Table(
    "experiment_counts",
    metadata,
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("episode_kind", Text, primary_key=True),
    Column("arm", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("units", BigInteger, nullable=False),  # assigned, and not excluded
    Column("excluded", BigInteger, nullable=False),
    Column("measured", BigInteger, nullable=False),  # units whose window is over; the rest is of these
    Column("complete", BigInteger, nullable=False),  # and the time for feedback, too
    Column("inferences", BigInteger, nullable=False),
    Column("episodes", BigInteger, nullable=False),
    Column("served_by_other", BigInteger, nullable=False),  # inferences that another arm answered
    postgresql_with={"fillfactor": 70},
)


# What the gateway by itself, and people by their results, have done to experiments. Append-only: a trigger refuses all else.
experiment_acts = Table(
    "experiment_acts",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("experiment_id", UUID(as_uuid=False), ForeignKey("experiments.id"), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("kind", Text, nullable=False),  # stopped | put_back | weights | promoted
    Column("arm", Text),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),  # a sentence
    Column("evidence", JSONB, nullable=False),  # the numbers that decided, and the sums of units that they come from
    Column("before", JSONB, nullable=False),  # arms, stopped, status and winner
    Column("after", JSONB, nullable=False),
    Column("version", BigInteger),  # of the configuration that has it; None: it changed none
    Index("experiment_acts_experiment_id_id_idx", "experiment_id", "id"),
)
