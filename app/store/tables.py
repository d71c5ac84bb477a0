"""The tables, for SQLAlchemy. The migrations create them; a test compares the two."""

from typing import Any, Literal, get_args

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR, UUID

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    }
)

_now = func.now()

teams = Table(
    "teams",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("content", Text, nullable=False, server_default="full"),  # full | masked | redacted | none: how much of the content is recorded
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("changed", BigInteger, nullable=False, server_default="0"),  # as in keys
    Column("drop", ARRAY(Text)),  # fields that may be dropped from its requests: {all} for every field, null for none
    Column("priority", SmallInteger, nullable=False, server_default="0"),  # from -100 to 100; where requests wait, the highest go first
    Column("mask", JSONB(none_as_null=True)),  # rules of the content policy `masked`; null: all built-in detectors
    Column("search", Boolean, nullable=False, server_default="false"),  # whether the text of its inferences can be searched
    Column("restrictions", JSONB(none_as_null=True)),  # what its keys are held to: TeamRestrictions; null: to nothing
    Index(None, "changed"),
    Index("teams_search_idx", "id", postgresql_where=text("search")),
)

keys = Table(
    "keys",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("prefix", Text, nullable=False, unique=True),  # the public part, safe to show
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the complete key, whose 256 random bits need no salt
    Column("team_id", UUID(as_uuid=False), ForeignKey("teams.id"), nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("admin", Boolean, nullable=False, server_default="false"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("revoked_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True)),
    Column("models", ARRAY(Text)),  # restrictions, null for none: models and routes may end in *, networks are in CIDR notation
    Column("routes", ARRAY(Text)),
    Column("networks", ARRAY(Text)),
    Column("replaced_by", Text),  # the prefix of the key that it was rotated to
    Column("counts_as", Text),  # the prefix of the first of the keys that it replaces, as which limits count it; null: its own
    Column("changed", BigInteger, nullable=False, server_default="0"),  # the keys_version of its last change; set by triggers
    Column("drop", ARRAY(Text)),  # as in teams
    Column("priority", SmallInteger),  # as in teams; null for the team's
    Index(None, "changed"),
    Index(None, "team_id"),
    Index(None, "created_at", "id"),
    Index("keys_counts_as_idx", "counts_as", postgresql_where=text("counts_as IS NOT NULL")),
)

# One row. Every change to keys and teams increments `version` in its transaction; `last_removal_version` is the one of the last removal.
keys_version = Table(
    "keys_version",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("last_removal_version", BigInteger, nullable=False),
)

providers = Table(
    "providers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

functions = Table(
    "functions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

metrics = Table(
    "metrics",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("author", Text, nullable=False),
)

# Units about which something was stored since they were last counted: of a batch's inferences, or of feedback. The writers append, and
# whoever counts takes rows away (app/analytics/units). Erasures look for units, also while many rows wait.
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

limits = Table(
    "limits",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),  # their order in the file, with gaps
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("counted_since", DateTime(timezone=True)),  # since when it counts what it counts; None: since before that was recorded
    Column("counts_as", Text),  # what its counters are named after: the name that it had before it was renamed; null: its name
    Column("in_file", Boolean, nullable=False, server_default="false"),  # a configuration file that was applied has had it
    # Lists of keys show the limits of each key.
    Index("limits_key_idx", text("((config -> 'scope') ->> 'key')")),
)

# Another amount of a limit for one subject, until a time. One at a time is in force: those that have ended are its history.
limit_overrides = Table(
    "limit_overrides",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("limit_name", Text, ForeignKey("limits.name", ondelete="CASCADE"), nullable=False),
    Column("subject", JSONB, nullable=False),  # values of the dimensions of the scope that are "each"
    Column("amount", Double, nullable=False),
    Column("resource", Text, nullable=False),  # of the limit when it was made; with `per`, what the amount is of
    Column("per", Text),
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("ends_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True)),  # null: it ends at ends_at
    Index(None, "limit_name"),
    Index("limit_overrides_once", "limit_name", "subject", unique=True, postgresql_where=text("ended_at IS NULL")),
)

# When requests last matched a limit, to the minute; and (one row) since when that is stored.
limit_matches = Table(
    "limit_matches",
    metadata,
    Column("name", Text, ForeignKey("limits.name", ondelete="CASCADE"), primary_key=True),
    Column("matched_at", DateTime(timezone=True), nullable=False),
)

limit_matches_since = Table(
    "limit_matches_since",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=_now),
)

prices = Table(
    "prices",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("since", Text, primary_key=True),  # ISO 8601; empty: always
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Secrets for providers, encrypted by app/store/vault.py: neither the key nor the plain text is ever stored here.
credentials = Table(
    "credentials",
    metadata,
    Column("name", Text, primary_key=True),
    Column("encrypted", Text, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Who is notified of budgets that reach a threshold. `encrypted`: the secret that signs, as in credentials.
webhooks = Table(
    "webhooks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("id", UUID(as_uuid=False), nullable=False, unique=True),
    Column("url", Text, nullable=False),
    Column("encrypted", Text, nullable=False),
    Column("thresholds", ARRAY(Integer), nullable=False),  # percent of an amount
    Column("budgets", ARRAY(Text)),  # names; null: of all
    Column("enabled", Boolean, nullable=False, server_default="true"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# What webhooks are notified of, once, whatever number of them there are. `once`: a hash of what must not be repeated; null: a test.
webhook_events = Table(
    "webhook_events",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("once", LargeBinary, unique=True),
    Column("body", Text, nullable=False),  # as it is sent and signed
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Index(None, "created_at"),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("webhook_id", UUID(as_uuid=False), ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("event_id", UUID(as_uuid=False), ForeignKey("webhook_events.id", ondelete="CASCADE"), nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),  # pending | delivered | failed
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=_now),  # of a pending one
    Column("attempted_at", DateTime(timezone=True)),
    Column("response_status", Integer),  # null: no response came
    Column("error", Text),
    Index("webhook_deliveries_webhook_id_id_idx", "webhook_id", "id"),
    Index(None, "event_id"),
    Index("webhook_deliveries_due_idx", "next_attempt_at", postgresql_where=text("status = 'pending'")),
)

# Engines that registered themselves; a successful probe renews them. `speed`: how much one can take, compared with others; None: not said.
nodes = Table(
    "nodes",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("models", ARRAY(Text), nullable=False),
    Column("speed", Double),
    Column("registered_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("renewed_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Endpoints that get no new requests, whether or not they are configured at the moment.
drained_endpoints = Table(
    "drained_endpoints",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("drained_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Epochs of the memory in which Redis counts limits: if Redis knows none while one is stored here, its memory was lost.
limit_epochs = Table(
    "limit_epochs",
    metadata,
    Column("epoch", Text, primary_key=True),
    Column("began_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# One row: the version of the configuration. Every change to the configuration increments it in the same transaction.
snapshot_version = Table(
    "snapshot_version",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# Configurations that served, by the hash that inferences carry. What each consists of is in the history, as long as that has it.
snapshots = Table(
    "snapshots",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("document", JSONB(none_as_null=True)),  # all of it, as versions of Narthex from before 0054 stored it; null: see `version`
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("version", BigInteger),  # the newest of the history with this content; 0: from before the first; null: see `document`
)

# The version that each worker serves: `apply` waits for all of them.
workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("keys_version", BigInteger),  # null: a process of an earlier Narthex, which does not report it
)

# Partitioned by id: a UUIDv7, so a range of ids is a range of time, and a row is found by its id alone.
inferences = Table(
    "inferences",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("episode_id", UUID(as_uuid=False), nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("key_id", UUID(as_uuid=False), nullable=False),
    Column("route", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("function", Text),
    Column("variant", Text),
    Column("served_provider", Text),
    Column("served_model", Text),
    Column("endpoint", Text),
    Column("streamed", Boolean, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("finish_reason", Text),
    Column("error", Text),
    Column("message", Text),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("duration_us", BigInteger, nullable=False),
    Column("first_token_us", BigInteger),
    Column("attempts", JSONB),  # None: one attempt, which served
    Column("dropped", ARRAY(Text)),
    Column("tags", JSONB),
    Column("end_user", Text),
    Column("snapshot", Text, nullable=False),
    Column("charged_input", Integer),  # what limits counted in the end; None: recorded before there were limits
    Column("charged_output", Integer),
    Column("cost_microusd", BigInteger),  # None: unknown
    Column("structured_output", Text),  # how the constraint was met: enforced, converted, validated or unvalidated; None: there was none
    Column("usage_details", JSONB),  # usage beside the tokens above: cache writes, audio, images, the tier; None: none was reported
    Column("charge_basis", Text),  # reported, received or reserved; None: nothing was charged, or it was not recorded yet
    Column("reported_model", Text),  # the model that the host names in its response; None: served_model, or none
    Column("emulated", ARRAY(Text)),  # fields that the gateway honoured itself, as the target could not
    Column("trace_id", Text),  # of W3C trace context, in hexadecimal; null: it belongs to no trace
    Column("parent_span_id", Text),  # the caller's span; null: the trace began here, or there is none
    Column("sampled", Boolean),  # whether its trace is kept; null: recorded before that was
    Column("request_id", Text),  # the caller's own id of the request, its X-Request-Id; null: it gave none
    Column("price", Text),  # the price used, by its path below /admin/v1/prices/; None: there was none, or it was not recorded yet
    Column("host_cost_microusd", BigInteger),  # what the host says that it cost; None: it does not say
    Column("served_us", BigInteger),  # how long the attempt that served took, until the end of the response
    Column("charges", JSONB),  # what each attempt is charged; None: the cost is that of the tokens above, at one attempt
    Column("erased_at", DateTime(timezone=True)),  # when an erasure took from it what says whose it was; None: it was not erased
    Column("episode_name", Text),  # the text that the caller names its episode by; null: it named none, or by a UUID
    Column("experiment", Text),  # its name; None: none was running, or it was recorded before there were experiments
    Column("experiment_version", Integer),
    Column("arm_probability", Double),  # of the arm, which is `variant`, among units that take part; 0: the unit was left out
    Column("not_enrolled", Text),  # why the unit takes no part; None with an experiment: it takes part
    Column("experiment_unit", Text),  # a hash of what was randomised; None with an experiment: the request had none
    Column("episode_kind", Text),  # minted, caller_uuid7 or text; None: no experiment
    Column("served_variant", Text),  # whose model answered; None: nobody's, or there are no variants
    Column("origin", Text),  # shadow, replay or judge: why the gateway made the request itself; None: a caller made it
    Column("original_id", UUID(as_uuid=False)),  # the inference of a caller that it repeats or is about; None: a caller made it
    Column("replay_id", UUID(as_uuid=False)),  # None: of no replay
    Column("shadow", Text),  # the function or model whose shadow it is; None, as are the following: it is none
    Column("content_team_id", UUID(as_uuid=False)),  # whose request it repeats, and whose content this is; team_id is who pays
    Column("shadow_first_turn", Boolean),  # the request holds no earlier response
    Column("shadow_same", Boolean),  # both responses are the same; None: that is not known
    # The transaction that stored it, set by Postgres; null: stored before that was recorded. Not a part of the record.
    Column("stored_in", BigInteger, server_default=text("((pg_current_xact_id())::text)::bigint")),
    Index(None, "episode_id"),
    Index(None, "stored_in", postgresql_where=text("stored_in IS NOT NULL")),
    Index(None, "original_id", postgresql_where=text("original_id IS NOT NULL")),
    # What counts for a unit, or excludes it.
    Index(
        "inferences_unit_idx",
        "experiment_unit",
        "id",
        postgresql_where=text(
            "experiment_unit IS NOT NULL AND (not_enrolled IS NULL OR not_enrolled IN ('pinned', 'ineligible', 'late', 'future'))"
        ),
    ),
    Index("inferences_shadow_idx", "shadow", "id", postgresql_where=text("shadow IS NOT NULL")),
    # A Bloom filter for each 64 pages of rows, which costs the writer next to nothing.
    Index(
        None,
        "trace_id",
        "request_id",
        postgresql_using="brin",
        postgresql_with={"pages_per_range": 64},
        postgresql_ops={"trace_id": "text_bloom_ops", "request_id": "text_bloom_ops"},
    ),
    postgresql_partition_by="RANGE (id)",
)

# What is recorded of an inference.
record_columns = [column for column in inferences.columns if column.name != "stored_in"]

# The content of inferences, apart from their metadata: it is larger, more private, and kept for less time.
inference_content = Table(
    "inference_content",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("policy", Text, nullable=False),  # full | masked | redacted | none | lost | erased
    Column("request", LargeBinary),  # packed: see content_packing
    Column("response", LargeBinary),
    postgresql_partition_by="RANGE (id)",
)

# The words of recorded content, of teams that have full-text search. A partition gets an index of them when its day is over.
inference_texts = Table(
    "inference_texts",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("words", TSVECTOR, nullable=False),
    Index(None, "team_id", "id"),
    postgresql_partition_by="RANGE (id)",
)

# Responses that their callers deleted (OpenAI's DELETE /v1/responses/ID): no caller gets them any more.
deleted_responses = Table(
    "deleted_responses",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("deleted_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# A sample of refused requests, of which rollups have the number. It holds nothing of what was written. Partitioned by id, as inferences.
refusals = Table(
    "refusals",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),  # of the inference that it would have been
    Column("received_at", DateTime(timezone=True), nullable=False),
    Column("team_id", UUID(as_uuid=False)),  # null, as the key: no key was sent, or an unknown one
    Column("key_id", UUID(as_uuid=False)),
    Column("unknown_key", Text),  # the public part of a key that was not known, or no longer
    Column("route", Text, nullable=False),
    Column("model", Text, nullable=False),  # as it was requested; empty: none was read
    Column("status", SmallInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("code", Text),
    Column("param", Text),  # the field at fault
    Column("rule", Text, nullable=False),  # the limit that refused; empty: none did
    Column("message", Text),  # null: it might quote the request
    Column("request_id", Text),
    Column("trace_id", Text),
    Index(None, "team_id", "id"),
    postgresql_partition_by="RANGE (id)",
)

# What callers said of inferences and episodes: one row for each event, none of which is ever changed by another, but for `is_current`.
# Partitioned by id, a UUIDv7 of when the event was received. A metric may be gone from the configuration: its rows say what they are.
feedback = Table(
    "feedback",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("feedback_id", UUID(as_uuid=False), nullable=False),  # of the feedback that the event creates, corrects or withdraws
    Column("action", Text, nullable=False),  # create | correct | withdraw | conflict: with the id of other feedback
    Column("received_at", DateTime(timezone=True), nullable=False),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("key_id", UUID(as_uuid=False), nullable=False),
    Column("metric", Text),  # null, as are kind, level, target and value: it withdraws
    Column("kind", Text),  # boolean | float | comment | demonstration
    Column("level", Text),  # inference | episode: what target_id is of
    Column("target_id", UUID(as_uuid=False)),
    Column("value", JSONB(none_as_null=True)),  # null: nothing of it may be kept, or it withdraws
    Column("number", Double),  # the value of a boolean (0 or 1) or float
    Column("content", Text, nullable=False),  # what is kept of a comment or demonstration: full | masked | redacted | none | erased
    Column("tags", JSONB(none_as_null=True)),
    Column("is_current", Boolean, nullable=False),  # it counts: it is neither corrected nor withdrawn, and none replaced it
    Column("matched_at", DateTime(timezone=True)),  # when its inference or episode was found; null: not yet
    Column("model", Text),  # of that inference, or the first one of that episode, as are function and variant
    Column("function", Text),
    Column("variant", Text),
    Column("erased_at", DateTime(timezone=True)),
    Column("not_enrolled", Text),  # of that inference, too
    Index(None, "feedback_id", "id"),
    Index(None, "target_id", "metric", "key_id", "id"),
    # The rows that a newer one may replace are few, however often somebody corrects the same feedback.
    Index("feedback_current_id_idx", "feedback_id", postgresql_where=text("is_current")),
    Index("feedback_current_target_idx", "target_id", "metric", "key_id", postgresql_where=text("is_current AND number IS NOT NULL")),
    postgresql_partition_by="RANGE (id)",
)

# Feedback whose inference or episode was not found yet: when to look again. See app/recording/feedback_matcher.py.
feedback_pending = Table(
    "feedback_pending",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),  # of the event
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("level", Text, nullable=False),
    Column("target_id", UUID(as_uuid=False), nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
    Column("check_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("searches", SmallInteger, nullable=False, server_default="0"),  # how often it was looked for
    Column("searched_until", DateTime(timezone=True)),  # what was stored by then is not its target; null: not looked for yet
    Index(None, "team_id", "check_at"),
    Index(None, "team_id", "id"),
    Index(None, "target_id"),
    Index(None, "received_at"),
)

# Sums over inferences, kept by the writer in the transaction that stores them: the source of truth for costs.
usage = Table(
    "usage",
    metadata,
    Column("key_id", UUID(as_uuid=False), primary_key=True),
    Column("hour", DateTime(timezone=True), primary_key=True),  # the hour in which they were received
    Column("team_id", UUID(as_uuid=False), primary_key=True),
    Column("model", Text, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("charged_input", BigInteger, nullable=False),
    Column("charged_output", BigInteger, nullable=False),
    Column("cost_microusd", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),  # requests whose cost is unknown, and so not in the sum
    Index(None, "team_id", "hour"),
    Index(None, "hour"),
    # Free space on each page: the row of a busy key is updated with every batch, and stays on its page.
    postgresql_with={"fillfactor": 70},
)

# What rollups are grouped by: every combination that occurred. `id`: a hash of the rest. Empty: there is none; a team or key is null where
# it is not known, as in refusals of unknown keys. `model`: the name without prefixes.
rollup_groups = Table(
    "rollup_groups",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("team_id", UUID(as_uuid=False)),
    Column("key_id", UUID(as_uuid=False)),
    Column("route", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("function", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("served_model", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),  # as of inferences, or refused
    Column("error", Text, nullable=False),
    Column("rule", Text, nullable=False),  # the limit that refused
    Index(None, "team_id"),
)


def _rollup_columns() -> tuple[Column[Any], ...]:
    """Sums of a group in a period. Sketches: see app/store/sketches.py."""
    return (
        Column("requests", BigInteger, nullable=False),
        Column("input_tokens", BigInteger, nullable=False),
        Column("output_tokens", BigInteger, nullable=False),
        Column("cached_tokens", BigInteger, nullable=False),
        Column("reasoning_tokens", BigInteger, nullable=False),
        Column("cost_microusd", BigInteger, nullable=False),
        Column("estimated_microusd", BigInteger, nullable=False),  # the part of it that was charged by an estimate
        Column("unpriced", BigInteger, nullable=False),
        Column("duration_us", BigInteger, nullable=False),
        Column("max_duration_us", BigInteger, nullable=False),
        Column("max_cost_microusd", BigInteger, nullable=False),
        Column("duration_sketch", ARRAY(BigInteger), nullable=False),
        Column("first_token_sketch", ARRAY(BigInteger), nullable=False),
    )


# Partitioned by time. `time`: when the minute, hour or day (UTC) begins. Those by team or target are of broader groups: a period of them
# has few rows, so a dashboard's usual questions do not read all groups. See app/store/rollups.py.
RollupLevel = Literal["minute", "hour", "day", "hour_and_team", "hour_and_target", "day_and_team", "day_and_target"]
_ROLLUP_LEVELS: tuple[RollupLevel, ...] = get_args(RollupLevel)
_SUBJECT_LEVELS: tuple[RollupLevel, ...] = ("hour", "day", "day_and_team")

rollup_tables: dict[RollupLevel, Table] = {
    level: Table(
        f"rollups_by_{level}",
        metadata,
        Column("time", DateTime(timezone=True), primary_key=True),
        Column("group_id", BigInteger, primary_key=True, autoincrement=False),
        *_rollup_columns(),
        postgresql_partition_by="RANGE (time)",
    )
    for level in _ROLLUP_LEVELS
}

# The same by end user (`dimension` end_user) and by tag (tag:NAME).
subject_rollup_tables: dict[RollupLevel, Table] = {
    level: Table(
        f"subject_rollups_by_{level}",
        metadata,
        Column("dimension", Text, primary_key=True),
        Column("value", Text, primary_key=True),
        Column("time", DateTime(timezone=True), primary_key=True),
        Column("group_id", BigInteger, primary_key=True, autoincrement=False),
        Column("team_id", UUID(as_uuid=False), nullable=False),
        *_rollup_columns(),
        Index(None, "time"),
        postgresql_partition_by="RANGE (time)",
    )
    for level in _SUBJECT_LEVELS
}

# One row: inferences that were received before this may be missing in rollups, as an earlier version stored them.
rollups_since = Table(
    "rollups_since",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Until when each spool is stored: what was received before that is in the tables. A machine that has gone stops renewing `renewed_at`.
spools = Table(
    "spools",
    metadata,
    Column("spool", Text, primary_key=True),
    Column("stored_until", DateTime(timezone=True), nullable=False),
    Column("renewed_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Spools that had a writer of a version from before units were counted, perhaps, and up to where, in the order in which inferences were
# stored, the new writer has looked for what that one left out.
uncounted_spools = Table(
    "uncounted_spools",
    metadata,
    Column("spool", Text, primary_key=True),
    Column("stored_in", BigInteger, nullable=False),
    Column("id", UUID(as_uuid=False), nullable=False),
)

# Costs of inferences that were computed again. A trace of money: rows stay when the inference expires.
cost_changes = Table(
    "cost_changes",
    metadata,
    Column("run", UUID(as_uuid=False), primary_key=True),  # the recomputation, a UUIDv7
    Column("inference_id", UUID(as_uuid=False), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("author", Text, nullable=False),
    Column("old_cost_microusd", BigInteger),  # null: unknown, as in inferences
    Column("new_cost_microusd", BigInteger),
    Column("old_price", Text),
    Column("new_price", Text),
    Index(None, "inference_id"),
)

# Replays: recorded requests that are answered again by another model, or variant of a function, and compared. Nothing of `definition`
# changes. Amounts in millionths of a US dollar.
replays = Table(
    "replays",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("definition", JSONB, nullable=False),
    Column("team_id", UUID(as_uuid=False), nullable=False),  # with the key, who pays
    Column("key_id", UUID(as_uuid=False), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("created_by", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="running"),  # running | complete | cancelled | failed
    Column("reason", Text),  # why it ended before its last item, or what it waits for; null: neither
    Column("refused", JSONB, nullable=False),  # how many of the sample cannot be run, by reason
    Column("spent_microusd", BigInteger, nullable=False, server_default="0"),
    Column("ended_at", DateTime(timezone=True)),
    # The gateway process that runs it, until `lease_until`. `lease` grows with each: what an earlier holder writes is refused.
    Column("holder", Text),
    Column("lease", Integer, nullable=False, server_default="0"),
    Column("lease_until", DateTime(timezone=True)),
    Column("counts", JSONB(none_as_null=True)),  # of its items, once it has ended; null: they are counted as they are now
    Index(None, "team_id"),
    Index("replays_running_idx", "id", postgresql_where=text("status = 'running'")),
)

replay_items = Table(
    "replay_items",
    metadata,
    Column("replay_id", UUID(as_uuid=False), ForeignKey("replays.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # in a random order, in which they are run
    Column("original_id", UUID(as_uuid=False), nullable=False),
    Column("episode", Integer, nullable=False),  # equal for originals of one episode, and says nothing else
    Column("status", Text, nullable=False, server_default="pending"),  # pending | running | done | refused
    Column("reason", Text),  # why it was refused, or why it has no judgement
    Column("tries", Integer, nullable=False, server_default="0"),  # more than one: the process that ran it had ended in between
    Column("inference_id", UUID(as_uuid=False)),  # of the last try
    Column("began_at", DateTime(timezone=True)),
    Column("reserved_microusd", BigInteger, nullable=False, server_default="0"),  # for what is in progress
    Column("cost_microusd", BigInteger, nullable=False, server_default="0"),  # with the judge's
    Column("original", JSONB(none_as_null=True)),  # values of metrics; null: the response is not known yet
    Column("replayed", JSONB(none_as_null=True)),
    Column("same", Boolean),  # both responses say the same; null: that is not known
    Column("judgement", JSONB(none_as_null=True)),
    Index("replay_items_open_idx", "replay_id", "number", postgresql_where=text("status IN ('pending', 'running')")),
)

# Orders to erase what was recorded of somebody before `requested_at`. They are never deleted: records may come late, and they are proof.
erasures = Table(
    "erasures",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("number", BigInteger, nullable=False, unique=True),  # ascends in the order in which they are committed
    Column("kind", Text, nullable=False),  # end_user | tag | episode
    Column("tag", Text),  # the name of the tag
    Column("hash", LargeBinary, nullable=False),  # of kind, tag and value, with the key in erasure_keys
    Column("value", Text),  # null once it is complete
    Column("team_id", UUID(as_uuid=False)),  # null: of all teams
    Column("keep_tags", ARRAY(Text), nullable=False),  # names of tags that say nothing of a person, and stay
    Column("reference", Text),
    Column("requested_at", DateTime(timezone=True), nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("step", Text, nullable=False),  # see app/recording/erasure_steps.py
    Column("position", JSONB(none_as_null=True)),  # within the step
    Column("counts", JSONB, nullable=False, server_default="{}"),  # what was erased, by store
    Column("next_at", DateTime(timezone=True), nullable=False, server_default=_now),  # when it goes on
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("error", Text),  # of the last failure; null: it works
    Column("completed_at", DateTime(timezone=True)),
    Index("erasures_open_idx", "next_at", postgresql_where=text("completed_at IS NULL")),
    Index("erasures_episode_hash_idx", "hash", postgresql_where=text("kind = 'episode'")),
)

# Episodes that lost their id in an erasure, so that later feedback on them is known: see app/store/erased_episodes.py.
erased_episodes = Table(
    "erased_episodes",
    metadata,
    Column("team_id", UUID(as_uuid=False), primary_key=True),
    Column("hash", LargeBinary, primary_key=True),
    Column("erased_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Index(None, "erased_at"),
)

# Records that came late and were erased as they were stored: copies of them may be in Redis, until a row is processed and deleted.
erasure_arrivals = Table(
    "erasure_arrivals",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("erasure_id", UUID(as_uuid=False), nullable=False),
    Column("records", Integer, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
)

# One row: the key of the hashes in erasures, made when it is first needed.
erasure_keys = Table(
    "erasure_keys",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, nullable=False),
)

# How far the writer has read each spool segment; moved in the transaction that stores the rows, which makes storing exactly once.
spool_positions = Table(
    "spool_positions",
    metadata,
    Column("segment", Text, primary_key=True),
    Column("spool", Text, nullable=False),  # which spool folder: another machine's rows are not ours to clean
    Column("stored_end", BigInteger, nullable=False),
    Column("moved_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Every change by admins: who, when, from where, before and after, secrets masked. A trigger refuses UPDATE, DELETE and TRUNCATE.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("author_kind", Text, nullable=False),  # key | user | service_account | cli | system
    Column("author_id", Text),
    Column("author_name", Text, nullable=False),
    Column("via", Text, nullable=False),  # rest | cli | sign_in | system
    Column("ip", Text),
    Column("user_agent", Text),
    Column("action", Text, nullable=False),  # create | update | delete | revoke | rotate | ...
    Column("resource", Text, nullable=False),  # key | team | provider | model | limit | price | credential | endpoint | user | ...
    Column("name", Text, nullable=False),
    Column("team", Text),  # the team that the resource belongs to; null: the whole company's
    Column("before", JSONB(none_as_null=True)),
    Column("after", JSONB(none_as_null=True)),
    Column("request_id", Text),
    Column("version", BigInteger),  # the version of the configuration that has the change; null: it changed none
    Index(None, "resource", "name", "id"),
    Index(None, "team", "id"),
    Index(None, "author_id", "id"),
    Index(None, "at"),
)

# The versions of the configuration that changed what a file can set, and what each changed: `narthex history` and `narthex rollback`. The
# oldest expire. An earlier configuration is the one in force without what changed since: a migration that changes stored entries must
# change those of the history, too.
configuration_versions = Table(
    "configuration_versions",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("author_kind", Text, nullable=False),
    Column("author_id", Text),
    Column("author_name", Text, nullable=False),
    Column("via", Text, nullable=False),
    Column("restores", BigInteger),  # the version that it is equal to, after a rollback
)

configuration_changes = Table(
    "configuration_changes",
    metadata,
    Column("version", BigInteger, ForeignKey("configuration_versions.version"), primary_key=True, autoincrement=False),
    Column("section", Text, primary_key=True),  # teams | providers | models | limits | prices
    Column("name", Text, primary_key=True),  # of a price: a JSON list of provider, model and since
    Column("before", JSONB(none_as_null=True)),
    Column("after", JSONB(none_as_null=True)),
    Index(None, "section", "name", "version"),
)

# Who may use the admin API besides admin keys: people who sign in with OpenID Connect, and service accounts with tokens.
principals = Table(
    "principals",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("kind", Text, nullable=False),  # user | service_account
    Column("name", Text, nullable=False),  # of a user: what the issuer calls the person, usually an e-mail address
    Column("issuer", Text),  # of a user; with the subject, what identifies the person
    Column("subject", Text),
    Column("email", Text),
    Column("groups", ARRAY(Text)),  # as the issuer named them at the last sign-in
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("signed_in_at", DateTime(timezone=True)),
    Column("disabled_at", DateTime(timezone=True)),
    Index("principals_kind_name_key", "kind", "name", unique=True),
    Index("principals_issuer_subject_key", "issuer", "subject", unique=True),
)

# Roles given to a principal or to a group; team_id null: for the whole company.
role_grants = Table(
    "role_grants",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("principal_id", UUID(as_uuid=False), ForeignKey("principals.id", ondelete="CASCADE")),
    Column("group_name", Text),  # either this or principal_id
    Column("role", Text, nullable=False),  # owner | admin | editor | viewer | auditor
    Column("team_id", UUID(as_uuid=False), ForeignKey("teams.id", ondelete="CASCADE")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Index(None, "principal_id"),
    Index(None, "group_name"),
    Index(None, "team_id"),
    Index(
        "role_grants_once",
        text("COALESCE(principal_id::text, ''::text)"),
        text("COALESCE(group_name, ''::text)"),
        "role",
        text("COALESCE(team_id::text, ''::text)"),
        unique=True,
    ),
    CheckConstraint("(principal_id IS NULL) <> (group_name IS NULL)", name="role_grants_one_receiver"),
)

# Tokens of service accounts, and sessions of people, by SHA-256 of the token, which is shown once.
admin_tokens = Table(
    "admin_tokens",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # service_account | browser | cli
    Column("principal_id", UUID(as_uuid=False), ForeignKey("principals.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("expires_at", DateTime(timezone=True)),
    Column("used_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("ip", Text),
    Column("user_agent", Text),
    Index(None, "principal_id"),
)

# Responses of admin requests with an Idempotency-Key, for a repetition of the request.
admin_idempotency = Table(
    "admin_idempotency",
    metadata,
    Column("author", Text, primary_key=True),  # the kind and id of the principal
    Column("key", Text, primary_key=True),
    Column("request_hash", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", Text),  # encrypted by the vault if it holds a secret; null: then there was no key to encrypt it with
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Index(None, "created_at"),
)

# Datasets: names for versions of rows that were selected of inferences.
datasets = Table(
    "datasets",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("team_id", UUID(as_uuid=False)),  # whose inferences alone it may have; null: of all teams
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("created_by", Text, nullable=False),
    Column("deleted_at", DateTime(timezone=True)),  # then its name is free
    Index("datasets_name_key", "name", unique=True, postgresql_where=text("deleted_at IS NULL")),
)

# A version is built by a writer in pieces, and never changes after that, but for rows that an erasure takes. Its number stays.
dataset_versions = Table(
    "dataset_versions",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("dataset_id", UUID(as_uuid=False), ForeignKey("datasets.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("selection", JSONB, nullable=False),
    Column("status", Text, nullable=False),  # building | complete | failed | cancelled | deleted
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("created_by", Text, nullable=False),
    Column("position", UUID(as_uuid=False), nullable=False),  # inferences with this id and higher ones are done, or came too late
    Column("examined", BigInteger, nullable=False, server_default="0"),  # inferences that matched the filters
    Column("last_row", Integer, nullable=False, server_default="0"),  # the highest number of a row
    Column("rows", Integer, nullable=False, server_default="0"),  # that are there
    Column("size_bytes", BigInteger, nullable=False, server_default="0"),  # of content, packed
    Column("counts", JSONB, nullable=False, server_default="{}"),  # of rows by split, output, format and what was omitted; of skips
    Column("erased", Integer, nullable=False, server_default="0"),  # rows that erasures took
    Column("error", Text),  # why it failed, or the last try of a piece did
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("next_at", DateTime(timezone=True)),  # when a writer goes on with it; null: nothing is left to do
    Column("completed_at", DateTime(timezone=True)),
    Index("dataset_versions_number_key", "dataset_id", "number", unique=True),
    Index("dataset_versions_open_idx", "next_at", postgresql_where=text("next_at IS NOT NULL")),
)

# Copies of content, which outlive the inferences: docs/decisions/026-datasets.md.
dataset_rows = Table(
    "dataset_rows",
    metadata,
    Column("version_id", UUID(as_uuid=False), ForeignKey("dataset_versions.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("inference_id", UUID(as_uuid=False), nullable=False),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("model", Text, nullable=False),
    Column("function", Text),
    Column("variant", Text),
    Column("route", Text, nullable=False),  # the API by which the request came
    Column("content", Text, nullable=False),  # full | masked: how the inference was recorded
    Column("split", Text),  # train | validation; null: there are no splits
    Column("output", Text, nullable=False),  # response | demonstration: what is to be learned
    Column("request", LargeBinary, nullable=False),  # packed JSON: see content_packing and app/datasets/example.py
    Column("response", LargeBinary),
    Column("demonstration", LargeBinary),
    Column("omitted", ARRAY(Text)),  # what OpenAI's chat has no field for
    Column("faults", JSONB(none_as_null=True)),  # why it cannot be written, by format
)

# Whose words a row has: its own inference, the earlier turns of its conversation, the feedback with its demonstration. Erasures look here.
dataset_sources = Table(
    "dataset_sources",
    metadata,
    Column("version_id", UUID(as_uuid=False), ForeignKey("dataset_versions.id"), primary_key=True),
    Column("row_number", Integer, primary_key=True, autoincrement=False),
    Column("id", UUID(as_uuid=False), primary_key=True),  # of the inference or feedback
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("episode_id", UUID(as_uuid=False)),
    Column("end_user", Text),
    Column("tags", JSONB(none_as_null=True)),
    Index(None, "id"),
)

# Inferences that a selection matched and that got no row: the first of a version, as its counts have all.
dataset_skips = Table(
    "dataset_skips",
    metadata,
    Column("version_id", UUID(as_uuid=False), ForeignKey("dataset_versions.id"), primary_key=True),
    Column("inference_id", UUID(as_uuid=False), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("detail", Text),  # where, as a path; never what was written
)
