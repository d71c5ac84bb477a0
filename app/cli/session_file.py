"""The session that `narthex login` has begun: kept in a file that only its user can read."""

import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from app.supervisor.machine.errors import OperatorError
from providers.canonical.raw_json import DECODE_ERRORS


class CliSession(Struct, frozen=True):
    """The session that `narthex login` began."""

    url: str  # of the gateway, without /admin/v1
    token: str
    name: str
    expires_at: str  # when the session ends at the latest


def session_path() -> Path:
    """Returns the path of the session file, in XDG_CONFIG_HOME or ~/.config."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(configured) if configured.startswith("/") else Path.home() / ".config") / "narthex" / "session.json"


def load_session() -> CliSession | None:
    """Returns None if there is no session. Raises OperatorError for a file that is not one of ours."""
    path = session_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=CliSession)
    except FileNotFoundError:
        return None
    except DECODE_ERRORS:
        raise OperatorError(f"{path} is damaged: `narthex login` writes it anew.") from None


def save_session(session: CliSession) -> None:
    path = session_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # which only its user can read
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(session))
    os.replace(name, path)


def forget_session() -> None:
    session_path().unlink(missing_ok=True)
