"""The first contents of a new home: a caller's key, an administrator's key, and the sandbox engine's models."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from app.domain.routing import ProviderConfig
from app.store.configuration import apply_file, config_file, configuration
from app.store.teams.keys import create_key
from app.store.teams.shown_keys import KeyRow, show_key
from app.supervisor.database_query import query_database
from app.supervisor.machine.server_addresses import write_private_file

_PROVIDER_TOML = """\
[providers.sandbox]
adapter = "sandbox"
base_url = "http://127.0.0.1:{port}"
"""

_MODEL_NAMES = ("sandbox", "sandbox-slow", "sandbox-flaky", "sandbox-dies", "sandbox-embed")
# They are there to fail.
_FAILING_MODELS = ("sandbox-flaky", "sandbox-dies")


def ensure_first_keys(home: Path, database_url: str) -> str:
    """Returns the first caller's key. Makes HOME/first-key and HOME/admin-key unless they hold valid keys of this database."""
    caller_key = _ensure_key(home / "first-key", database_url, name="first key", admin=False)
    _ensure_key(home / "admin-key", database_url, name="admin key", admin=True)
    return caller_key


async def sandbox_port(database_url: str) -> int | None:
    """The sandbox engine's port in the configuration; None if no provider is named "sandbox"."""
    sandbox = (await _read_providers(database_url)).get("sandbox")
    return None if sandbox is None else _provider_address(sandbox)[1]


async def configure_sandbox(database_url: str, port: int) -> None:
    """Adds the sandbox's provider and models if the provider is new, else updates only its address.

    What an operator removed or changed stays so.
    """
    sandbox = (await _read_providers(database_url)).get("sandbox")
    if sandbox is None:
        content = _PROVIDER_TOML.format(port=port) + "".join(_model_toml(name) for name in _MODEL_NAMES)
    elif sandbox.adapter == "sandbox" and _provider_address(sandbox) != ("127.0.0.1", port):
        content = _PROVIDER_TOML.format(port=port)
    else:
        return
    await apply_file.apply(database_url, content, prune=False, confirm=lambda difference: True, wait_s=0.0)


async def provider_addresses(database_url: str) -> set[tuple[str | None, int | None]]:
    """Host and port of every configured provider."""
    return {_provider_address(each) for each in (await _read_providers(database_url)).values()}


def _ensure_key(path: Path, database_url: str, *, name: str, admin: bool) -> str:
    stored = path.read_text().strip() if path.exists() else ""
    row = query_database(database_url, lambda url: show_key(url, stored))
    if row is not None and _is_valid(row):
        return stored
    key = query_database(database_url, lambda url: create_key(url, "default", name=name, admin=admin))
    write_private_file(path, key + "\n")
    return key


def _is_valid(row: KeyRow) -> bool:
    expires = None if row.expires_at is None else datetime.datetime.fromisoformat(row.expires_at)
    return row.revoked_at is None and (expires is None or expires > datetime.datetime.now(datetime.UTC))


async def _read_providers(database_url: str) -> Mapping[str, ProviderConfig]:
    return config_file.parse_config_file(await configuration.export(database_url)).providers or {}


def _provider_address(provider: ProviderConfig) -> tuple[str | None, int | None]:
    url = urlsplit(provider.base_url or "")
    return url.hostname, url.port


def _model_toml(name: str) -> str:
    retries = "retries = 0\n" if name in _FAILING_MODELS else ""
    return f'\n[models.{name}]\ntargets = [{{ provider = "sandbox", model = "{name}" }}]\n{retries}'
