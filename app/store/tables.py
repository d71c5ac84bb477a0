"""The tables, as SQLAlchemy knows them. The migrations make them; the two are compared in a test."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

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
    Column("content", Text, nullable=False, server_default="full"),  # full | redacted | none: what is kept of asks and replies
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("changed", BigInteger, nullable=False, server_default="0"),  # as in keys
    Index(None, "changed"),
)

keys = Table(
    "keys",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("prefix", Text, nullable=False, unique=True),  # the public part, safe to show
    Column("hash", LargeBinary, nullable=False, unique=True),  # SHA-256 of the whole key, which has 256 random bits: no salt is needed
    Column("team_id", UUID(as_uuid=False), ForeignKey("teams.id"), nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    Column("admin", Boolean, nullable=False, server_default="false"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
    Column("revoked_at", DateTime(timezone=True)),
    Column("expires_at", DateTime(timezone=True)),
    Column("models", ARRAY(Text)),  # what it may do, each with null for all: models and routes may end in *, networks in CIDR notation
    Column("routes", ARRAY(Text)),
    Column("networks", ARRAY(Text)),
    Column("replaced_by", Text),  # the prefix of the key that it was rotated to
    Column("changed", BigInteger, nullable=False, server_default="0"),  # the keys_version of its last change; triggers set it
    Index(None, "changed"),
    Index(None, "team_id"),
)

# One row. `version` is raised by every change to keys and teams, in its transaction; `swept` is the version of the last removal of rows.
keys_version = Table(
    "keys_version",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("swept", BigInteger, nullable=False),
)

providers = Table(
    "providers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("config", JSONB, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

limits = Table(
    "limits",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),  # as the file has them
    Column("config", JSONB, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

prices = Table(
    "prices",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("since", Text, primary_key=True),  # ISO 8601; empty: ever
    Column("config", JSONB, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Secrets for providers, as app/store/vault.py encrypts them: neither the key nor what it opens is ever here.
credentials = Table(
    "credentials",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sealed", Text, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Lives of the memory in which limits are counted: one that Redis does not know, while it stands here, was lost.
limit_epochs = Table(
    "limit_epochs",
    metadata,
    Column("epoch", Text, primary_key=True),
    Column("began_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# One row: the version that the next snapshot carries. Whoever changes configuration adds one to it in the same transaction.
directory_version = Table(
    "directory_version",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# Every configuration that ever served, by the hash that inferences carry.
snapshots = Table(
    "snapshots",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("document", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# Which worker serves which version: `apply` waits for all of them.
workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("seen_at", DateTime(timezone=True), nullable=False, server_default=_now),
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
    Column("charged_input", Integer),  # what limits counted in the end; None: of before there were any
    Column("charged_output", Integer),
    Column("cost_microusd", BigInteger),  # None: unknown
    Column("guided", Text),  # enforced, converted or validated; None: nothing constrained the answer
    Column("usage_more", JSONB),  # what was counted beside the tokens above: cache writes, audio, images, the tier; None: nothing was
    Index(None, "episode_id"),
    postgresql_partition_by="RANGE (id)",
)

# What was said, apart from the numbers: it is larger, more private, and kept for less time.
inference_content = Table(
    "inference_content",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("policy", Text, nullable=False),  # full | redacted | none | lost
    Column("ask", LargeBinary),  # zlib
    Column("reply", LargeBinary),  # zlib
    postgresql_partition_by="RANGE (id)",
)

# Answers that their callers deleted (OpenAI's DELETE /v1/responses/ID): they are told to no caller any more.
deleted_responses = Table(
    "deleted_responses",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("team_id", UUID(as_uuid=False), nullable=False),
    Column("deleted_at", DateTime(timezone=True), nullable=False, server_default=_now),
)

# What inferences add up to, kept by the writer in the transaction that stores them: the truth for money.
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
    Column("unpriced", BigInteger, nullable=False),  # requests whose cost is unknown, and not in the sum
    Index(None, "team_id", "hour"),
    Index(None, "hour"),
    # Room beside each row: the row of a busy key is written anew with every batch, and stays on its page.
    postgresql_with={"fillfactor": 70},
)

# How far the writer has read each spool segment; moved in the transaction that stores the rows: exactly once.
spool_positions = Table(
    "spool_positions",
    metadata,
    Column("segment", Text, primary_key=True),
    Column("spool", Text, nullable=False),  # which spool folder: another machine's rows are not ours to clean
    Column("read_to", BigInteger, nullable=False),
    Column("moved_at", DateTime(timezone=True), nullable=False, server_default=_now),
)
