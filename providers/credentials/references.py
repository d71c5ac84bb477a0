"""References: where a credential is, as the configuration says it."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit


class CredentialError(ValueError):
    """A credential that is named and cannot be read; the message names where, never what."""


# The secret that is stored under a name. Raises NoCredential.
SecretLookup = Callable[[str], str]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STORED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_HEADER = re.compile(r"x-[a-z0-9-]{1,60}")
# Ours, and those that say something to every proxy between.
_RESERVED_HEADERS = ("x-narthex-", "x-forwarded-", "x-request-id", "x-api-key", "x-real-ip")
# What the clouds' own libraries find by themselves: in their environment, their files, of the machine that this is.
_TOKEN_SERVERS = ("https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token")
_CHAINS = re.compile(r"aws:default|aws:profile:[^\s:]{1,100}|google:default")


def check(reference: str | None) -> None:
    """Raises NoCredential unless `reference` is None or one of those that the message names. The value itself need not be there yet."""
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
    if known.get(kind):
        return
    # The reference itself is not repeated: somebody may have put the secret there.
    raise CredentialError(
        "credential must be env:NAME (a variable of the gateway's environment), file:PATH (an absolute path), store:NAME (kept encrypted:"
        " `narthex credentials set NAME`), header:x-NAME (a header of the caller's request), aws:default, aws:profile:NAME"
        " or google:default."
    )


def header_of(reference: str | None) -> str | None:
    """The header of the caller's request in which a credential comes; None: it does not come so."""
    return reference.removeprefix("header:") if reference is not None and reference.startswith("header:") else None


def read(reference: str | None, lookup: SecretLookup) -> str | None:
    """The secret, without white space around it; of a cloud's own chain, which is asked later, the reference itself. None: none is named.

    Raises NoCredential if it is named and not there.
    """
    if reference is None or _CHAINS.fullmatch(reference):
        return reference
    kind, _, location = reference.partition(":")
    match kind:
        case "env":
            secret = os.environ.get(location, "")
            source = f"the environment variable {location}"
        case "store":
            secret = lookup(location)
            source = f"the store, under the name {location}"
        case _:
            source = f"the file {location}"
            try:
                secret = Path(location).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as fault:
                raise CredentialError(f"The credential in {source} cannot be read: {type(fault).__name__}.") from None
    return check_usable(secret, source)


def check_usable(secret: str, source: str) -> str:
    """Raises NoCredential for what can be none: it would not pass through a header. JSON, as clouds give theirs, may have lines."""
    secret = secret.strip()
    if not secret:
        raise CredentialError(f"There is no credential in {source}: nothing is there.")
    if not secret.isascii() or not (secret.isprintable() or secret.startswith("{")):
        raise CredentialError(f"There is no usable credential in {source}: it has a line break, or a character that no header can hold.")
    if _CHAINS.fullmatch(secret):  # whoever may say a credential may not say that the gateway's own be taken
        raise CredentialError(
            f"There is no credential in {source}, but the name of a cloud's own chain, which only a configuration may name."
        )
    return secret


def read_caller_credential(secret: str, header: str) -> str:
    """What a caller sends as its own. Raises NoCredential, also for one whose tokens would be asked for where the caller pleases."""
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
    """A name that store:NAME can say. Raises NoCredential."""
    if _STORED_NAME.fullmatch(name) is None:
        raise CredentialError(
            "A stored credential's name has letters, digits, dots, dashes and underscores, begins with one of the first two,"
            " and has at most 100 characters."
        )
    return name
