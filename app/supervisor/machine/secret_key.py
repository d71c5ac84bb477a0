"""The secret key of a home: made once by `narthex up`, read by its gateway processes and by the commands that use the same home."""

import secrets
from dataclasses import replace
from pathlib import Path

from app.settings import BadSetting, Secrets, Settings
from app.store.postgres.vault import Vault, WeakEncryptionKey
from app.supervisor.machine.server_addresses import write_private_file

_RANDOM_BYTES = 32


def resolve(settings: Settings) -> Settings:
    """These settings, with the key of HOME/secret-key if the environment has none. Raises OSError if the file is not readable."""
    if settings.secret_key.parsed:
        return settings
    try:
        return replace(settings, secret_key=Secrets(key_path(settings).read_text()))
    except FileNotFoundError:
        return settings


def create_if_missing(settings: Settings) -> None:
    """Writes a new HOME/secret-key unless there is a key. Raises BadSetting if the existing key is too weak."""
    if not open_vault(resolve(settings)).newest_key_id:
        write_private_file(key_path(settings), generate() + "\n")


def generate() -> str:
    """A new random key."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def open_vault(settings: Settings) -> Vault:
    """The vault that these settings' keys decrypt; without a key it decrypts nothing. Raises BadSetting if a key is too weak."""
    try:
        return Vault(settings.secret_key.parsed)
    except WeakEncryptionKey as fault:
        raise BadSetting(str(fault)) from None


def key_path(settings: Settings) -> Path:
    return settings.home / "secret-key"
