"""Tables of erasures."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.store.postgres.tables.base import metadata, now

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
    Column("step", Text, nullable=False),  # see app/recording/erasure/steps.py
    Column("position", JSONB(none_as_null=True)),  # within the step
    Column("counts", JSONB, nullable=False, server_default="{}"),  # what was erased, by store
    Column("next_at", DateTime(timezone=True), nullable=False, server_default=now),  # when it goes on
    Column("failures", Integer, nullable=False, server_default="0"),  # in a row
    Column("error", Text),  # of the last failure; null: it works
    Column("completed_at", DateTime(timezone=True)),
    Index("erasures_open_idx", "next_at", postgresql_where=text("completed_at IS NULL")),
    Index("erasures_episode_hash_idx", "hash", postgresql_where=text("kind = 'episode'")),
)


# Episodes that lost their id in an erasure, so that later feedback on them is known: see app/recording/erasure/episodes.py.
erased_episodes = Table(
    "erased_episodes",
    metadata,
    Column("team_id", UUID(as_uuid=False), primary_key=True),
    Column("hash", LargeBinary, primary_key=True),
    Column("erased_at", DateTime(timezone=True), nullable=False, server_default=now),
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
