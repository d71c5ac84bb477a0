"""The admin API: an audit log, the history of the configuration, users and service accounts with roles, their tokens and sign-ins."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_REFUSE_CHANGES = """
    CREATE FUNCTION narthex_audit_log_refuses_changes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'the audit log is append-only';
    END $$
"""


def upgrade() -> None:
    for table in ("providers", "models", "limits", "prices"):
        op.add_column(table, _time("created_at"))
        rows = sa.table(table, sa.column("created_at"), sa.column("updated_at"))
        op.execute(rows.update().values(created_at=rows.c.updated_at))
    op.create_table(
        "audit_log",
        _id(),
        _time("at"),
        _text("author_kind"),
        _text("author_id", nullable=True),
        _text("author_name"),
        _text("via"),
        _text("ip", nullable=True),
        _text("user_agent", nullable=True),
        _text("action"),
        _text("resource"),
        _text("name"),
        _text("team", nullable=True),
        sa.Column("before", JSONB),
        sa.Column("after", JSONB),
        _text("request_id", nullable=True),
        sa.Column("version", sa.BigInteger),
    )
    op.create_index("audit_log_resource_name_id_idx", "audit_log", ["resource", "name", "id"])
    op.create_index("audit_log_team_id_idx", "audit_log", ["team", "id"])
    op.create_index("audit_log_author_id_id_idx", "audit_log", ["author_id", "id"])
    op.create_index("audit_log_at_idx", "audit_log", ["at"])
    op.execute(_REFUSE_CHANGES)
    op.execute(
        "CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log"
        " FOR EACH STATEMENT EXECUTE FUNCTION narthex_audit_log_refuses_changes()"
    )
    op.create_table(
        "configuration_versions",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        _time("at"),
        _text("author_kind"),
        _text("author_id", nullable=True),
        _text("author_name"),
        _text("via"),
        sa.Column("restores", sa.BigInteger),
    )
    op.create_table(
        "configuration_changes",
        sa.Column("version", sa.BigInteger, sa.ForeignKey("configuration_versions.version"), primary_key=True, autoincrement=False),
        sa.Column("section", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("before", JSONB),
        sa.Column("after", JSONB),
    )
    op.create_index("configuration_changes_section_name_version_idx", "configuration_changes", ["section", "name", "version"])
    op.create_table(
        "principals",
        _id(),
        _text("kind"),
        _text("name"),
        _text("issuer", nullable=True),
        _text("subject", nullable=True),
        _text("email", nullable=True),
        sa.Column("groups", ARRAY(sa.Text)),
        _time("created_at"),
        sa.Column("signed_in_at", sa.DateTime(timezone=True)),
        sa.Column("disabled_at", sa.DateTime(timezone=True)),
    )
    op.create_index("principals_kind_name_key", "principals", ["kind", "name"], unique=True)
    op.create_index("principals_issuer_subject_key", "principals", ["issuer", "subject"], unique=True)
    op.create_table(
        "role_grants",
        _id(),
        sa.Column("principal_id", UUID, sa.ForeignKey("principals.id", ondelete="CASCADE")),
        _text("group_name", nullable=True),
        _text("role"),
        sa.Column("team_id", UUID, sa.ForeignKey("teams.id", ondelete="CASCADE")),
        _time("created_at"),
        sa.CheckConstraint("(principal_id IS NULL) <> (group_name IS NULL)", name="role_grants_one_receiver"),
    )
    for column in ("principal_id", "group_name", "team_id"):
        op.create_index(f"role_grants_{column}_idx", "role_grants", [column])
    op.execute(
        "CREATE UNIQUE INDEX role_grants_once ON role_grants (coalesce(principal_id::text, ''), coalesce(group_name, ''), role,"
        " coalesce(team_id::text, ''))"
    )
    op.create_table(
        "admin_tokens",
        _id(),
        sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
        _text("kind"),
        sa.Column("principal_id", UUID, sa.ForeignKey("principals.id", ondelete="CASCADE"), nullable=False),
        sa.Column("name", sa.Text, nullable=False, server_default=""),
        _time("created_at"),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("used_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        _text("ip", nullable=True),
        _text("user_agent", nullable=True),
    )
    op.create_index("admin_tokens_principal_id_idx", "admin_tokens", ["principal_id"])
    op.create_table(
        "sign_in_attempts",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        _text("kind"),
        _text("encrypted"),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("sign_in_attempts_expires_at_idx", "sign_in_attempts", ["expires_at"])
    op.create_table(
        "admin_idempotency",
        sa.Column("author", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("request_hash", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("headers", JSONB, nullable=False),
        _text("body", nullable=True),
        _time("created_at"),
    )
    op.create_index("admin_idempotency_created_at_idx", "admin_idempotency", ["created_at"])


def _id() -> sa.Column[str]:
    return sa.Column("id", UUID, primary_key=True)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
