"""The addresses of a running `narthex up`'s servers: a file in its home, for commands that use the same home."""

import os
from dataclasses import replace
from pathlib import Path

from app.settings import PostgresUrl, Settings
from app.supervisor.machine.errors import OperatorError


def publish(settings: Settings) -> None:
    """Writes the addresses to HOME/run/servers."""
    addresses = {
        "DATABASE_URL": settings.database_url,
        "DATABASE_DIRECT_URL": settings.database_direct_url,
        "REDIS_URL": settings.redis_url,
    }
    write_private_file(_path(settings.home), "".join(f"{name}={address}\n" for name, address in addresses.items()))


def withdraw(home: Path) -> None:
    """Removes the file: the servers are about to end."""
    _path(home).unlink(missing_ok=True)


def resolve(settings: Settings) -> Settings:
    """These settings, with the addresses of the running servers where the environment has none.

    Raises OperatorError if there is neither.
    """
    if settings.database_url:
        return settings
    try:
        text = _path(settings.home).read_text()
    except FileNotFoundError:
        raise OperatorError(
            f"Which database? DATABASE_URL is not set, and nothing runs in {settings.home.absolute()}."
            " Start `narthex up` (or `make up`), set NARTHEX_HOME to the folder in which it runs, or set DATABASE_URL."
        ) from None
    except PermissionError:
        raise OperatorError(
            f"Only the user who runs `narthex up` may read {_path(settings.home)}. Run as that user, or set DATABASE_URL."
        ) from None
    addresses = dict(line.split("=", 1) for line in text.splitlines())
    servers = {"database_url": addresses["DATABASE_URL"], "redis_url": settings.redis_url or addresses["REDIS_URL"]}
    return replace(settings, **servers, database_direct_url=PostgresUrl(addresses.get("DATABASE_DIRECT_URL", "")))


def write_private_file(path: Path, text: str) -> None:
    """Writes a file that only its owner may read. It is complete as soon as it exists."""
    partial = path.with_name(path.name + ".half")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    partial.replace(path)


def _path(home: Path) -> Path:
    return home / "run" / "servers"
