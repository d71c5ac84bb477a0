"""The columns of a stored inference, in their order."""

from sqlalchemy.dialects.postgresql import JSONB, UUID

from app.store.postgres.tables import record_columns

INFERENCE_COLUMNS = [column.name for column in record_columns]


# A row as it is copied: UUIDs and JSON as text.
ROW_EXPRESSIONS = [f"{column.name}::text" if isinstance(column.type, UUID | JSONB) else column.name for column in record_columns]
