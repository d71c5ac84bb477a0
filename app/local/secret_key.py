"""The secret key of a home: made once by `narthex up`, read by its gateways and by the commands that are typed beside them."""

import secrets
from dataclasses import replace
from pathlib import Path

from app.local.servers import write_private
from app.settings import BadSetting, Secrets, Settings
from app.store.vault import BadKey, Vault

_RANDOM_BYTES = 32


def found(settings: Settings) -> Settings:
    """These settings with what HOME/secret-key holds, where the environment names no key. Raises OSError for one that may not be read."""
    if settings.secret_key.parsed:
        return settings
    try:
        return replace(settings, secret_key=Secrets(path(settings).read_text()))
    except FileNotFoundError:
        return settings


def make(settings: Settings) -> None:
    """Unless there is one. Raises BadSetting for one that protects nothing."""
    if not vault(found(settings)).newest:
        write_private(path(settings), new() + "\n")


def new() -> str:
    return secrets.token_urlsafe(_RANDOM_BYTES)


def vault(settings: Settings) -> Vault:
    """Raises BadSetting."""
    try:
        return Vault(settings.secret_key.parsed)
    except BadKey as fault:
        raise BadSetting(str(fault)) from None


def path(settings: Settings) -> Path:
    return settings.home / "secret-key"
