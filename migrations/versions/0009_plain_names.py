"""Plain names: columns, a table and outcomes get the names that the API uses."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_RENAMED_COLUMNS = (
    ("inference_content", "ask", "request"),
    ("inference_content", "reply", "response"),
    ("inferences", "guided", "structured_output"),
    ("inferences", "usage_more", "usage_details"),
    ("credentials", "sealed", "encrypted"),
    ("keys_version", "swept", "last_removal_version"),
)
# As 0002 made it, with the column's new name.
_SWEEP = """
CREATE OR REPLACE FUNCTION narthex_sweep_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE keys_version SET version = version + 1, last_removal_version = version + 1;
    RETURN NULL;
END $$
"""
# Errors by name: of inferences, and of the attempts in their JSON.
_RENAMED_ERRORS = {
    "HungUp": "ClientDisconnected",
    "Cut": "Aborted",
    "Malformed": "InvalidRequest",
    "NoKey": "CallerCredentialRequired",
    "WrongMethod": "MethodNotAllowed",
    "TooLarge": "BodyTooLarge",
    "NotOffered": "OperationNotSupported",
    "KeyReused": "IdempotencyKeyReused",
    "LimitReached": "LimitExceeded",
    "NeverFits": "LimitUnsatisfiable",
    "Exhausted": "QuotaExhausted",
    "Failed": "UpstreamFailed",
    "Unparsed": "UnparsableModelOutput",
    "Garbled": "InvalidUpstreamResponse",
    "CutShort": "StreamTruncated",
    "NoToken": "TokenUnavailable",
    "NotServed": "RouteNotServed",
    "NotObeyed": "ConstraintViolation",
    "Ignored": "RequestIgnored",
    "Refused": "UpstreamRejected",
    "Missing": "UpstreamNotFound",
}
_RENAME_VALUES = """
UPDATE {partition} SET
    outcome = CASE outcome WHEN 'hung_up' THEN 'disconnected' WHEN 'cut' THEN 'aborted' ELSE outcome END,
    error = {error},
    attempts = {attempts}::jsonb
WHERE outcome <> 'answered' OR error IS NOT NULL OR attempts IS NOT NULL
"""


def _rename_values(partition: str) -> str:
    error, attempts = "CASE error", "attempts::text"
    for old, new in _RENAMED_ERRORS.items():
        error += f" WHEN '{old}' THEN '{new}'"
        attempts = f'replace({attempts}, \'"error": "{old}"\', \'"error": "{new}"\')'
    return _RENAME_VALUES.format(partition=partition, error=f"{error} ELSE error END", attempts=attempts)


def upgrade() -> None:
    # A writer of the previous version must add no row behind the updates. Afterwards it does not find its columns and keeps retrying, and
    # its spool waits for the new writer. Reading goes on until the columns are renamed.
    op.execute("LOCK TABLE inferences IN SHARE ROW EXCLUSIVE MODE")
    partitions = op.get_bind().execute(
        sa.text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'inferences'::regclass ORDER BY 1")
    )
    for partition in list(partitions.scalars()):
        op.execute(_rename_values(partition))
    for table, old, new in _RENAMED_COLUMNS:
        op.alter_column(table, old, new_column_name=new)
    op.execute(_SWEEP)
    op.rename_table("directory_version", "snapshot_version")
    op.execute("ALTER INDEX directory_version_pkey RENAME TO snapshot_version_pkey")
