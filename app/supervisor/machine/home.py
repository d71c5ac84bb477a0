"""The home: the folder (NARTHEX_HOME) with everything that Narthex keeps on this machine."""

import os
import shutil
from pathlib import Path

from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.os_user import describe_user
from app.supervisor.machine.paths import socket_folder


def make_home(home: Path) -> Path:
    """Returns the home as an absolute path, and makes it if it is new. Raises OperatorError if it belongs to another user."""
    home = home.absolute()
    try:
        # Under root the servers' user may pass through to its own folders, but not list the home.
        home.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        owner = home.stat().st_uid
    except FileExistsError:
        raise OperatorError(f"{home} is not a folder. Move it away, or set NARTHEX_HOME to another folder.") from None
    except PermissionError as error:
        raise OperatorError(f"No permission for {error.filename}. Set NARTHEX_HOME to a folder that you may write.") from None
    if owner != os.geteuid():
        raise OperatorError(
            f"{home} belongs to {describe_user(owner)}, and this is {describe_user(os.geteuid())}."
            f" Run as {describe_user(owner)}, or set NARTHEX_HOME to another folder."
        )
    return home


def erase_home(home: Path) -> None:
    """Removes a home with everything that belongs to it, what lies outside it included. Nothing of it may be running."""
    data = home / "data"
    if data.is_symlink():
        shutil.rmtree(data.resolve(), ignore_errors=True)
    shutil.rmtree(socket_folder(home), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
