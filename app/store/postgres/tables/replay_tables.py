"""Tables of replays."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from app.store.postgres.tables.base import metadata, now

# Replays: recorded requests that are answered again by another model, or variant of a function, and compared. Nothing of `definition`
# changes. Amounts in millionths of a US dollar.
replays = Table(
    "replays",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("definition", JSONB, nullable=False),
    Column("team_id", UUID(as_uuid=False), nullable=False),  # with the key, who pays
    Column("key_id", UUID(as_uuid=False), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
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
