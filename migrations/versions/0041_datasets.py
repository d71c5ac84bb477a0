"""Datasets: versions of rows that were selected of recorded inferences."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def _time(name: str, *, is_set: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.func.now() if is_set else None, nullable=not is_set)


def _version() -> sa.Column[Any]:
    return sa.Column("version_id", UUID, sa.ForeignKey("dataset_versions.id"), primary_key=True)


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", UUID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("team_id", UUID),
        _time("created_at", is_set=True),
        sa.Column("created_by", sa.Text, nullable=False),
        _time("deleted_at"),
    )
    op.create_index("datasets_name_key", "datasets", ["name"], unique=True, postgresql_where=sa.text("deleted_at IS NULL"))
    op.create_table(
        "dataset_versions",
        sa.Column("id", UUID, primary_key=True),
        sa.Column("dataset_id", UUID, sa.ForeignKey("datasets.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("selection", JSONB, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        _time("created_at", is_set=True),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("position", UUID, nullable=False),
        sa.Column("examined", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_row", sa.Integer, nullable=False, server_default="0"),
        sa.Column("rows", sa.Integer, nullable=False, server_default="0"),
        sa.Column("size_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("counts", JSONB, nullable=False, server_default="{}"),
        sa.Column("erased", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", sa.Text),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        _time("next_at"),
        _time("completed_at"),
    )
    op.create_index("dataset_versions_number_key", "dataset_versions", ["dataset_id", "number"], unique=True)
    op.create_index("dataset_versions_open_idx", "dataset_versions", ["next_at"], postgresql_where=sa.text("next_at IS NOT NULL"))
    op.create_table(
        "dataset_rows",
        _version(),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("inference_id", UUID, nullable=False),
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("function", sa.Text),
        sa.Column("variant", sa.Text),
        sa.Column("route", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("split", sa.Text),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("response", sa.LargeBinary),
        sa.Column("demonstration", sa.LargeBinary),
        sa.Column("omitted", ARRAY(sa.Text)),
        sa.Column("faults", JSONB),
    )
    op.create_table(
        "dataset_sources",
        _version(),
        sa.Column("row_number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", UUID, primary_key=True),
        sa.Column("team_id", UUID, nullable=False),
        sa.Column("episode_id", UUID),
        sa.Column("end_user", sa.Text),
        sa.Column("tags", JSONB),
    )
    op.create_index("dataset_sources_id_idx", "dataset_sources", ["id"])
    op.create_table(
        "dataset_skips",
        _version(),
        sa.Column("inference_id", UUID, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
    )
    # What is in them is packed already.
    for column in ("request", "response", "demonstration"):
        op.execute(f"ALTER TABLE dataset_rows ALTER COLUMN {column} SET STORAGE EXTERNAL")
