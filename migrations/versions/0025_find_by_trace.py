"""An index of traces and of the callers' own ids of requests.

A Bloom filter for each half megabyte of rows: it costs the writer next to nothing, where a tree of random ids would cost it a page a row.
"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "inferences_trace_id_request_id_idx",
        "inferences",
        ["trace_id", "request_id"],
        postgresql_using="brin",
        # Of the default of 128 pages, both filters would be larger than what fits into a page of the index.
        postgresql_with={"pages_per_range": 64},
        postgresql_ops={"trace_id": "text_bloom_ops", "request_id": "text_bloom_ops"},
    )
