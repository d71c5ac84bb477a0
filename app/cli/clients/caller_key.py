"""The key and the address of a command that calls a gateway as an application does."""

from app.settings import Settings
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import reachable_url


def load_key(settings: Settings, key: str | None) -> tuple[str, str]:
    """Returns a key and where it was found, for error messages: the option's, or the first key of this home.

    Raises OperatorError if there is none, or if it cannot be a key.
    """
    api_key, key_from = (key.strip(), "--key or NARTHEX_KEY") if key else _load_first_key(settings)
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise OperatorError(f"The value from {key_from} cannot be a key.")
    return api_key, key_from


def base_url(settings: Settings, url: str | None) -> str:
    """Returns the address of the gateway that is meant, without /v1."""
    return url.rstrip("/").removesuffix("/v1") if url else reachable_url(settings)


def _load_first_key(settings: Settings) -> tuple[str, str]:
    path = settings.home.absolute() / "first-key"
    try:
        return path.read_text().strip(), str(path)
    except FileNotFoundError:
        raise OperatorError(
            f"No API key found in {path}. Give one with --key or NARTHEX_KEY (`narthex keys create --team T` creates one),"
            " or set NARTHEX_HOME to the folder in which Narthex runs."
        ) from None
