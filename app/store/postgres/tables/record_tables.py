"""Tables of what was recorded: inferences, refusals, feedback, and how far spools are stored."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR, UUID

from app.store.postgres.tables.base import metadata, now

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
    Column("origin", Text),  # shadow, replay, judge or playground: why the gateway made the request itself; None: a caller made it
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
    # Failures and aborted requests are few, so their index is small. The team is in it, so that those of one are found without the rows.
    Index("inferences_unanswered_idx", "id", "team_id", postgresql_where=text("outcome <> 'answered'")),
    Index("inferences_end_user_idx", "end_user", "id", postgresql_where=text("end_user IS NOT NULL")),
    # What took longest, and what cost most.
    Index(None, "duration_us"),
    Index(None, "cost_microusd", postgresql_where=text("cost_microusd IS NOT NULL")),
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
    Column("deleted_at", DateTime(timezone=True), nullable=False, server_default=now),
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


# Feedback whose inference or episode was not found yet: when to look again. See app/recording/writer/feedback_matcher.py.
feedback_pending = Table(
    "feedback_pending",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),  # of the event
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("level", Text, nullable=False),
    Column("target_id", UUID(as_uuid=False), nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
    Column("check_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("searches", SmallInteger, nullable=False, server_default="0"),  # how often it was looked for
    Column("searched_until", DateTime(timezone=True)),  # what was stored by then is not its target; null: not looked for yet
    Index(None, "team_id", "check_at"),
    Index(None, "team_id", "id"),
    Index(None, "target_id"),
    Index(None, "received_at"),
)


# Until when each spool is stored: what was received before that is in the tables. A machine that has gone stops renewing `renewed_at`.
spools = Table(
    "spools",
    metadata,
    Column("spool", Text, primary_key=True),
    Column("stored_until", DateTime(timezone=True), nullable=False),
    Column("renewed_at", DateTime(timezone=True), nullable=False, server_default=now),
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


# How far the writer has read each spool segment; moved in the transaction that stores the rows, which makes storing exactly once.
spool_positions = Table(
    "spool_positions",
    metadata,
    Column("segment", Text, primary_key=True),
    Column("spool", Text, nullable=False),  # which spool folder: another machine's rows are not ours to clean
    Column("stored_bytes", BigInteger, nullable=False),
    Column("moved_at", DateTime(timezone=True), nullable=False, server_default=now),
)
