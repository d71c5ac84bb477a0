"""Tables of the configuration, its history, and of what follows it: nodes, epochs of counters, workers."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.store.postgres.tables.base import metadata, now

providers = Table(
    "providers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


functions = Table(
    "functions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


metrics = Table(
    "metrics",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


limits = Table(
    "limits",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),  # their order in the file, with gaps
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
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
    Column("since", DateTime(timezone=True), nullable=False, server_default=now),
)


prices = Table(
    "prices",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("since", Text, primary_key=True),  # ISO 8601; empty: always
    Column("config", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


# Engines that registered themselves; a successful probe renews them. `speed`: how much one can take, compared with others; None: not said.
nodes = Table(
    "nodes",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("models", ARRAY(Text), nullable=False),
    Column("speed", Double),
    Column("registered_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("renewed_at", DateTime(timezone=True), nullable=False, server_default=now),
)


# Endpoints that get no new requests, whether or not they are configured at the moment.
drained_endpoints = Table(
    "drained_endpoints",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("drained_at", DateTime(timezone=True), nullable=False, server_default=now),
)


# Epochs of the memory in which Redis counts limits: if Redis knows none while one is stored here, its memory was lost.
limit_epochs = Table(
    "limit_epochs",
    metadata,
    Column("epoch", Text, primary_key=True),
    Column("began_at", DateTime(timezone=True), nullable=False, server_default=now),
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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("version", BigInteger),  # the newest of the history with this content; 0: from before the first; null: see `document`
)


# The version that each worker serves: `apply` waits for all of them.
workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("keys_version", BigInteger),  # null: a process of an earlier Narthex, which does not report it
)


# The versions of the configuration that changed what a file can set, and what each changed: `narthex history` and `narthex rollback`. The
# oldest expire. An earlier configuration is the one in force without what changed since: a migration that changes stored entries must
# change those of the history, too.
configuration_versions = Table(
    "configuration_versions",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", DateTime(timezone=True), nullable=False, server_default=now),
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
