"""Credential references: env:NAME, file:PATH and so on, which the configuration holds instead of secrets."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit


class CredentialError(ValueError):
    """A credential that is configured and cannot be read or used. The message says where it is, and never its value."""


# The secret that is stored under a name. Raises CredentialError.
SecretLookup = Callable[[str], str]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The gateway's own secrets: whoever may configure a provider may not have them sent to its host.
_OWN_VARIABLES = ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_OWN_PREFIXES = ("NARTHEX_", "PG")  # PGPASSWORD is read where DATABASE_URL has no password
_STORED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_HEADER = re.compile(r"x-[a-z0-9-]{1,60}")
# The gateway's own, and those that proxies in between read or set.
_RESERVED_HEADERS = ("x-narthex-", "x-forwarded-", "x-request-id", "x-api-key", "x-real-ip")
_TOKEN_SERVERS = ("https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token")
# The clouds' own credential chains: their libraries search the environment, files and the machine's metadata.
_CHAINS = re.compile(r"aws:default|aws:profile:[^\s:]{1,100}|google:default")


def check(reference: str | None) -> None:
    """Raises CredentialError for an invalid reference; None is valid. The credential itself need not exist yet."""
    if reference is None:
        return
    kind, _, location = reference.partition(":")
    known = {
        "file": location.startswith("/"),
        "env": _NAME.fullmatch(location) is not None,
        "store": _STORED_NAME.fullmatch(location) is not None,
        "header": _HEADER.fullmatch(location) is not None and not location.startswith(_RESERVED_HEADERS),
        "aws": _CHAINS.fullmatch(reference) is not None,
        "google": _CHAINS.fullmatch(reference) is not None,
    }
    if kind == "env":
        _check_variable(location)
    if known.get(kind):
        return
    # The message does not repeat the reference: somebody may have put the secret itself there.
    raise CredentialError(
        "credential must be env:NAME (a variable of the gateway's environment), file:PATH (an absolute path), store:NAME (kept encrypted:"
        " `narthex credentials set NAME`), header:x-NAME (a header of the caller's request), aws:default, aws:profile:NAME"
        " or google:default."
    )


def header_of(reference: str | None) -> str | None:
    """The caller's header that brings the credential; None: it is not a `header:` reference."""
    return reference.removeprefix("header:") if reference is not None and reference.startswith("header:") else None


class CredentialReader:
    """Reads what references name. `stored` looks up store:NAME, file:PATH is only read below one of `folders`, and env:NAME in `environ`.

    The configuration may be changed over the network, and with it the host that a credential is sent to: without the folders, whoever may
    do that could send any file that the gateway may read to a host of their own.
    """

    def __init__(self, stored: SecretLookup, folders: Sequence[Path], environ: Mapping[str, str] = os.environ) -> None:
        self._stored = stored
        self._folders = folders
        self._environ = environ

    def read(self, reference: str | None) -> str | None:
        """The secret, stripped of white space. A cloud's own chain is returned as it is, for a signer to resolve. None: no reference.

        Raises CredentialError if the secret is missing or unusable, or its file lies elsewhere.
        """
        if reference is None or _CHAINS.fullmatch(reference):
            return reference
        kind, _, location = reference.partition(":")
        match kind:
            case "env":
                _check_variable(location)
                secret = self._environ.get(location, "")
                source = f"the environment variable {location}"
            case "store":
                secret = self._stored(location)
                source = f"the store, under the name {location}"
            case _:
                secret = self._read_file(location)
                source = f"the file {location}"
        return check_usable(secret, source)

    def _read_file(self, location: str) -> str:
        try:
            # Links and ".." are resolved first, and the result is what is read.
            path = Path(location).resolve()
            if any(path.is_relative_to(folder.resolve()) for folder in self._folders):
                return path.read_text(encoding="utf-8")
        except (OSError, RuntimeError, ValueError) as error:  # of a loop of links a RuntimeError; a UnicodeDecodeError is a ValueError
            raise CredentialError(f"The credential in the file {location} cannot be read: {type(error).__name__}.") from None
        raise CredentialError(
            f"The credential in the file {location} is not read: files of credentials lie, with all links followed, below"
            f" {' or '.join(map(str, self._folders)) or 'no folder'}. Move it there, or add its folder to NARTHEX_CREDENTIAL_FOLDERS"
            " in the gateway's environment."
        )


def _check_variable(name: str) -> None:
    if name.upper() in _OWN_VARIABLES or name.upper().startswith(_OWN_PREFIXES):
        raise CredentialError(f"{name} is the gateway's own and is not sent to providers: put the credential into another variable.")


def check_usable(secret: str, source: str) -> str:
    """The stripped secret. Raises CredentialError if it is empty or cannot be sent in a header; only JSON may contain line breaks."""
    secret = secret.strip()
    if not secret:
        raise CredentialError(f"There is no credential in {source}: it is missing or empty.")
    if not secret.isascii() or not (secret.isprintable() or secret.startswith("{")):
        raise CredentialError(f"There is no usable credential in {source}: it has a line break, or characters that a header cannot have.")
    if _CHAINS.fullmatch(secret):  # a secret's owner must not select the gateway's own identity
        raise CredentialError(
            f"There is no credential in {source}, but the name of a cloud's own chain, which only the configuration may use."
        )
    return secret


def read_caller_credential(secret: str, header: str) -> str:
    """A credential from a caller's own header. Raises CredentialError if it is unusable.

    So is JSON that names a token server other than Google's: the gateway would send requests to an address of the caller's choice.
    """
    secret = check_usable(secret, f"the header {header}")
    if secret.startswith("{"):
        try:
            fields = json.loads(secret)
        except (ValueError, RecursionError):
            raise CredentialError(f"The credential in the header {header} is not JSON.") from None
        server = urlsplit(str(fields.get("token_uri", _TOKEN_SERVERS[0])))
        if (server.scheme, server.netloc) not in {urlsplit(each)[:2] for each in _TOKEN_SERVERS}:
            raise CredentialError(f"The credential in the header {header} names a token server that is not Google's.")
    return secret


def check_stored_name(name: str) -> str:
    """The name, if it is valid in store:NAME. Raises CredentialError."""
    if _STORED_NAME.fullmatch(name) is None:
        raise CredentialError(
            "A stored credential's name has letters, digits, dots, dashes and underscores, begins with one of the first two,"
            " and has at most 100 characters."
        )
    return name
