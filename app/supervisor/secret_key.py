"""The secret key of a home: made once by `narthex up`, read by its gateways and by the commands that are typed beside them."""

import secrets
from dataclasses import replace
from pathlib import Path

from app.settings import BadSetting, Secrets, Settings
from app.store.vault import Vault, WeakEncryptionKey
from app.supervisor.server_addresses import write_private_file

_RANDOM_BYTES = 32


def resolve(settings: Settings) -> Settings:
    """These settings with what HOME/secret-key holds, where the environment names no key. Raises OSError for one that may not be read."""
    if settings.secret_key.parsed:
        return settings
    try:
        return replace(settings, secret_key=Secrets(key_path(settings).read_text()))
    except FileNotFoundError:
        return settings


def create_if_missing(settings: Settings) -> None:
    """Unless there is one. Raises BadSetting for one that protects nothing."""
    if not open_vault(resolve(settings)).newest_key_id:
        write_private_file(key_path(settings), generate() + "\n")


def generate() -> str:
    return secrets.token_urlsafe(_RANDOM_BYTES)


def open_vault(settings: Settings) -> Vault:
    """Raises BadSetting."""
    try:
        return Vault(settings.secret_key.parsed)
    except WeakEncryptionKey as fault:
        raise BadSetting(str(fault)) from None


def key_path(settings: Settings) -> Path:
    return settings.home / "secret-key"
