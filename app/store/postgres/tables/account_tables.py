"""Tables of who may administer, of credentials and webhooks, and of what admins did."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
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

# Secrets for providers, encrypted by app/store/postgres/vault.py: neither the key nor the plain text is ever stored here.
credentials = Table(
    "credentials",
    metadata,
    Column("name", Text, primary_key=True),
    Column("encrypted", Text, nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


# Who is notified of budgets that reach a threshold. `encrypted`: the secret that signs, as in credentials.
webhooks = Table(
    "webhooks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("id", UUID(as_uuid=False), nullable=False, unique=True),
    Column("url", Text, nullable=False),
    Column("encrypted", Text, nullable=False),
    Column("thresholds", ARRAY(Integer), nullable=False),  # percent of an amount
    Column("budgets", ARRAY(Text)),  # names; null: of all
    Column("enabled", Boolean, nullable=False, server_default="true"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=now),
)


# What webhooks are notified of, once, whatever number of them there are. `once`: a hash of what must not be repeated; null: a test.
webhook_events = Table(
    "webhook_events",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("once", LargeBinary, unique=True),
    Column("body", Text, nullable=False),  # as it is sent and signed
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Index(None, "created_at"),
)


webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("webhook_id", UUID(as_uuid=False), ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("event_id", UUID(as_uuid=False), ForeignKey("webhook_events.id", ondelete="CASCADE"), nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),  # pending | delivered | failed
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("next_attempt_at", DateTime(timezone=True), nullable=False, server_default=now),  # of a pending one
    Column("attempted_at", DateTime(timezone=True)),
    Column("response_status", Integer),  # null: no response came
    Column("error", Text),
    Index("webhook_deliveries_webhook_id_id_idx", "webhook_id", "id"),
    Index(None, "event_id"),
    Index("webhook_deliveries_due_idx", "next_attempt_at", postgresql_where=text("status = 'pending'")),
)


# Every change by admins: who, when, from where, before and after, secrets masked. A trigger refuses UPDATE, DELETE and TRUNCATE.
audit_log = Table(
    "audit_log",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("author_kind", Text, nullable=False),  # key | user | service_account | cli | system
    Column("author_id", Text),
    Column("author_name", Text, nullable=False),
    Column("via", Text, nullable=False),  # rest | cli | sign_in | system
    Column("ip", Text),
    Column("user_agent", Text),
    Column("action", Text, nullable=False),  # create | update | delete | revoke | rotate | ...
    Column("resource", Text, nullable=False),  # key | team | provider | model | limit | price | credential | endpoint | user | ...
    Column("name", Text, nullable=False),
    Column("team", Text),  # the team that the resource belongs to; null: the whole company's
    Column("before", JSONB(none_as_null=True)),
    Column("after", JSONB(none_as_null=True)),
    Column("request_id", Text),
    Column("version", BigInteger),  # the version of the configuration that has the change; null: it changed none
    Index(None, "resource", "name", "id"),
    Index(None, "team", "id"),
    Index(None, "author_id", "id"),
    Index(None, "at"),
)


# Who may use the admin API besides admin keys: people who sign in with OpenID Connect, and service accounts with tokens.
principals = Table(
    "principals",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("kind", Text, nullable=False),  # user | service_account
    Column("name", Text, nullable=False),  # of a user: what the issuer calls the person, usually an e-mail address
    Column("issuer", Text),  # of a user; with the subject, what identifies the person
    Column("subject", Text),
    Column("email", Text),
    Column("groups", ARRAY(Text)),  # as the issuer named them at the last sign-in
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("signed_in_at", DateTime(timezone=True)),
    Column("disabled_at", DateTime(timezone=True)),
    Index("principals_kind_name_key", "kind", "name", unique=True),
    Index("principals_issuer_subject_key", "issuer", "subject", unique=True),
)


# Roles given to a principal or to a group; team_id null: for the whole company.
role_grants = Table(
    "role_grants",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("principal_id", UUID(as_uuid=False), ForeignKey("principals.id", ondelete="CASCADE")),
    Column("group_name", Text),  # either this or principal_id
    Column("role", Text, nullable=False),  # owner | admin | editor | viewer | auditor
    Column("team_id", UUID(as_uuid=False), ForeignKey("teams.id", ondelete="CASCADE")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Index(None, "principal_id"),
    Index(None, "group_name"),
    Index(None, "team_id"),
    Index(
        "role_grants_once",
        text("COALESCE(principal_id::text, ''::text)"),
        text("COALESCE(group_name, ''::text)"),
        "role",
        text("COALESCE(team_id::text, ''::text)"),
        unique=True,
    ),
    CheckConstraint("(principal_id IS NULL) <> (group_name IS NULL)", name="role_grants_one_receiver"),
)


# Tokens of service accounts, and sessions of people and of admin keys, by SHA-256 of the token, which is shown once.
admin_tokens = Table(
    "admin_tokens",
    metadata,
    Column("id", UUID(as_uuid=False), primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("kind", Text, nullable=False),  # service_account | browser | cli | once
    Column("principal_id", UUID(as_uuid=False), ForeignKey("principals.id", ondelete="CASCADE")),
    Column("key_id", UUID(as_uuid=False), ForeignKey("keys.id", ondelete="CASCADE")),  # either this or principal_id
    Column("name", Text, nullable=False, server_default=""),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Column("expires_at", DateTime(timezone=True)),
    Column("used_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("ip", Text),
    Column("user_agent", Text),
    Index(None, "principal_id"),
    Index(None, "key_id"),
    CheckConstraint("(principal_id IS NULL) <> (key_id IS NULL)", name="admin_tokens_one_holder"),
)


# Responses of admin requests with an Idempotency-Key, for a repetition of the request.
admin_idempotency = Table(
    "admin_idempotency",
    metadata,
    Column("author", Text, primary_key=True),  # the kind and id of the principal
    Column("key", Text, primary_key=True),
    Column("request_hash", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", Text),  # encrypted by the vault if it holds a secret; null: then there was no key to encrypt it with
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=now),
    Index(None, "created_at"),
)
