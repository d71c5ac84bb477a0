"""Tables of teams and keys."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.store.postgres.tables.base import metadata, now

teams = Table(
    "teams",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("content", Text, nullable=False, server_default="full"),  # full | masked | redacted | none: how much of the content is recorded
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("changed", BigInteger, nullable=False, server_default="0"),  # as in keys
    Column("drop", ARRAY(Text)),  # fields that may be dropped from its requests: {all} for every field, null for none
    Column("priority", SmallInteger, nullable=False, server_default="0"),  # from -100 to 100; where requests wait, the highest go first
    Column("mask", JSONB(none_as_null=True)),  # rules of the content policy `masked`; null: all built-in detectors
    Column("search", Boolean, nullable=False, server_default="false"),  # whether the text of its inferences can be searched
    # What its keys are held to: the settings of TeamConfig without a column of their own; null: to nothing.
    Column("restrictions", JSONB(none_as_null=True)),
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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
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
