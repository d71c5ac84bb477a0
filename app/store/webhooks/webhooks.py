"""Webhooks as they are configured: create, list, change and delete them. Their secrets are write-only, encrypted as credentials are."""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.settings import Settings
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.names import is_name
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn
from app.store.postgres.vault import Vault
from providers.transport.address_guard import AddressRefused

MAX_WEBHOOKS = 100
MAX_THRESHOLDS = 20
MAX_THRESHOLD_PERCENT = 1000
DEFAULT_THRESHOLDS = (50, 80, 100)
SECRET_PREFIX = "whsec_"
_MAX_NAME_CHARACTERS = 200
_MAX_URL_CHARACTERS = 2000
_MAX_BUDGETS = 1000
_SECRET_BYTES = range(24, 65)  # as Standard Webhooks says
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")

_webhooks = tables.webhooks
_KEYSET = Keyset(
    {"name": SortColumn(_webhooks.c.name), "created_at": SortColumn(_webhooks.c.created_at, datetime)}, SortColumn(_webhooks.c.name)
)


Url = Annotated[str, Meta(description="https, with a public address, unless NARTHEX_WEBHOOK_NETWORKS allows others.")]
Secret = Annotated[
    str, Meta(description="whsec_ and 24 to 64 random bytes in Base64. It is encrypted before it is stored, and never shown again.")
]
Thresholds = Annotated[Sequence[int], Meta(description="Percent of a budget's amount.")]
Budgets = Annotated[Sequence[str] | None, Meta(description="Only of these budgets, by name; null: of all.")]


class Webhook(Struct, frozen=True):
    """A receiver that is notified of budgets.

    `thresholds` are percent of an amount. `budgets` names those that it is notified of, or is null for all.
    """

    name: str
    id: str
    url: str
    thresholds: Sequence[int]
    budgets: Sequence[str] | None
    enabled: bool
    created_at: str
    updated_at: str


class WebhookEdit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Changes of a webhook; what is left out stays."""

    url: Url | UnsetType = UNSET
    secret: Secret | UnsetType = UNSET
    thresholds: Thresholds | UnsetType = UNSET
    budgets: Annotated[Sequence[str] | UnsetType | None, Meta(description="Null: of all.")] = UNSET
    enabled: bool | UnsetType = UNSET

    def __repr__(self) -> str:
        return "WebhookEdit(...)"


class WebhookExists(Exception):
    """There is a webhook of this name already."""


def new_secret() -> str:
    """Returns a secret in the form of Standard Webhooks, which its libraries take as it is."""
    return SECRET_PREFIX + base64.b64encode(os.urandom(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """The key that signs. Raises ValueError."""
    raw = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    if not secret.startswith(SECRET_PREFIX) or len(raw) not in _SECRET_BYTES:
        raise ValueError
    return raw


def vault_name(webhook_id: str) -> str:
    """The name under which the vault encrypts a webhook's secret: of no credential that a provider could name."""
    return f"webhook:{webhook_id}"


async def page_webhooks(connection: AsyncConnection, query: PageQuery) -> Page[Webhook]:
    rows = (await connection.execute(_KEYSET.page_query(select(_webhooks), query))).all()
    return _KEYSET.page(rows, query, _to_webhook)


async def read_enabled(connection: AsyncConnection) -> list[Webhook]:
    return [_to_webhook(row) for row in await connection.execute(select(_webhooks).where(_webhooks.c.enabled).order_by(_webhooks.c.name))]


async def find_webhook(connection: AsyncConnection, name: str, *, lock: bool = False) -> Webhook | None:
    query = select(_webhooks).where(_webhooks.c.name == name.replace("\0", ""))
    row = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else _to_webhook(row)


async def create_webhook(
    connection: AsyncConnection,
    vault: Vault,
    author: Author,
    name: str,
    url: str,
    secret: str,
    *,
    thresholds: Sequence[int],
    budgets: Sequence[str] | None,
    settings: Settings,
) -> Webhook:
    """Raises InvalidKeyField, WebhookExists, NoEncryptionKey."""
    if not is_name(name) or len(name) > _MAX_NAME_CHARACTERS:
        raise InvalidKeyField("name", f"`name` must be 1 to {_MAX_NAME_CHARACTERS} printable characters, without spaces at its ends.")
    id = uuid7.mint()
    values = {
        "name": name,
        "id": id,
        "url": _check_url(url, settings),
        "encrypted": vault.encrypt(vault_name(id), _check_secret(secret)),
        "thresholds": _check_thresholds(thresholds),
        "budgets": _check_budgets(budgets),
    }
    if (await connection.scalar(select(func.count()).select_from(_webhooks)) or 0) >= MAX_WEBHOOKS:
        raise InvalidKeyField("name", f"There are {MAX_WEBHOOKS} webhooks already, which is the most there may be.")
    try:
        async with connection.begin_nested():
            created = _to_webhook((await connection.execute(_webhooks.insert().values(values).returning(_webhooks))).one())
    except IntegrityError:
        raise WebhookExists(f"There is a webhook {name!r:.200} already.") from None
    await record(connection, author, AuditEvent("create", "webhook", name, None, _audited(created)))
    return created


async def change_webhook(
    connection: AsyncConnection, vault: Vault, author: Author, before: Webhook, changes: WebhookEdit, *, settings: Settings
) -> Webhook:
    """Changes a locked webhook. A new secret signs what is sent from then on.

    Raises InvalidKeyField, NoEncryptionKey.
    """
    values: dict[str, Any] = {"updated_at": func.now()}
    if changes.url is not UNSET:
        values["url"] = _check_url(changes.url, settings)
    if changes.secret is not UNSET:
        values["encrypted"] = vault.encrypt(vault_name(before.id), _check_secret(changes.secret))
    if changes.thresholds is not UNSET:
        values["thresholds"] = _check_thresholds(changes.thresholds)
    if changes.budgets is not UNSET:
        values["budgets"] = _check_budgets(changes.budgets)
    if changes.enabled is not UNSET:
        values["enabled"] = changes.enabled
    changed = update(_webhooks).where(_webhooks.c.id == before.id).values(values).returning(_webhooks)
    after = _to_webhook((await connection.execute(changed)).one())
    new = {**_audited(after), **({"secret": "changed"} if changes.secret is not UNSET else {})}
    await record(connection, author, AuditEvent("update", "webhook", before.name, _audited(before), new))
    return after


async def delete_webhook(connection: AsyncConnection, author: Author, before: Webhook) -> None:
    """Deletes a webhook with its deliveries, those that are pending included."""
    await connection.execute(delete(_webhooks).where(_webhooks.c.id == before.id))
    await record(connection, author, AuditEvent("delete", "webhook", before.name, _audited(before), None))


def _audited(webhook: Webhook) -> Mapping[str, Any]:
    shown = msgspec.to_builtins(webhook)
    return {name: shown[name] for name in ("url", "thresholds", "budgets", "enabled")}


def _check_url(url: str, settings: Settings) -> str:
    """Returns the URL. Raises InvalidKeyField if it is not one that may be sent to.

    What a host name stands for is looked at when it is sent to: it may be something else by then.
    """
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise InvalidKeyField("url", "`url` is not a valid URL.") from None
    host = parts.netloc.rpartition("@")[2].rpartition(":")[0] if parts.port else parts.netloc.rpartition("@")[2]
    if len(url) > _MAX_URL_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url or not port_is_valid:
        raise InvalidKeyField("url", f"`url` must be a URL of at most {_MAX_URL_CHARACTERS} plain characters.")
    if parts.scheme == "http" and not settings.webhook_networks.parsed:
        raise InvalidKeyField("url", "`url` must be https; http is only for hosts in NARTHEX_WEBHOOK_NETWORKS, which is not set here.")
    if parts.scheme not in ("https", "http") or not _HOST.fullmatch(host):
        raise InvalidKeyField("url", "`url` must be such as https://example.com/hooks/narthex.")
    if "@" in parts.netloc or parts.fragment:
        raise InvalidKeyField("url", "`url` must not hold a user, a password or a fragment.")
    try:
        settings.address_guard.check_host(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except AddressRefused as refused:
        raise InvalidKeyField("url", f"`url`: {refused}.") from None
    return url


def _check_secret(secret: str) -> str:
    try:
        secret_bytes(secret)
    except (ValueError, binascii.Error):
        raise InvalidKeyField(
            "secret", f"`secret` must be {SECRET_PREFIX} and 24 to 64 random bytes in Base64. Left out, one is made and shown once."
        ) from None
    return secret


def _check_thresholds(thresholds: Sequence[int]) -> list[int]:
    if not 0 < len(thresholds) <= MAX_THRESHOLDS or not all(1 <= each <= MAX_THRESHOLD_PERCENT for each in thresholds):
        raise InvalidKeyField(
            "thresholds", f"`thresholds` must be 1 to {MAX_THRESHOLDS} numbers from 1 to {MAX_THRESHOLD_PERCENT}, in percent of an amount."
        )
    return sorted(set(thresholds))


def _check_budgets(budgets: Sequence[str] | None) -> list[str] | None:
    if budgets is not None and not (0 < len(budgets) <= _MAX_BUDGETS and all(is_name(each) and len(each) <= 1000 for each in budgets)):
        raise InvalidKeyField("budgets", f"`budgets` must be 1 to {_MAX_BUDGETS} names of budgets, or null for all of them.")
    return None if budgets is None else sorted(set(budgets))


def _to_webhook(row: Row[Any]) -> Webhook:
    times = row.created_at.isoformat(), row.updated_at.isoformat()
    return Webhook(row.name, row.id, row.url, row.thresholds, row.budgets, row.enabled, *times)
