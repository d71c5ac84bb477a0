"""Tables of datasets."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from app.store.postgres.tables.base import metadata, now

# Datasets: names for versions of rows that were selected of inferences.
datasets = Table(
    "datasets",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("team_id", UUID(as_uuid=False)),  # whose inferences alone it may have; null: of all teams
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
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
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
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
