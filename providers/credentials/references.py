"""References: where a credential is, as the configuration says it."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit


class NoCredential(ValueError):
    """A credential that is named and cannot be read; the message names where, never what."""


# The secret that is stored under a name. Raises NoCredential.
Stored = Callable[[str], str]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STORED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_HEADER = re.compile(r"x-[a-z0-9-]{1,60}")
# Ours, and those that say something to every proxy between.
_NOT_THEIRS = ("x-narthex-", "x-forwarded-", "x-request-id", "x-api-key", "x-real-ip")
# What the clouds' own libraries find by themselves: in their environment, their files, of the machine that this is.
_TOKEN_SERVERS = ("https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token")
_CHAINS = re.compile(r"aws:default|aws:profile:[^\s:]{1,100}|google:default")


def check(reference: str | None) -> None:
    """Raises NoCredential unless `reference` is None or one of those that the message names. The value itself need not be there yet."""
    if reference is None:
        return
    kind, _, place = reference.partition(":")
    known = {
        "file": place.startswith("/"),
        "env": _NAME.fullmatch(place) is not None,
        "store": _STORED.fullmatch(place) is not None,
        "header": _HEADER.fullmatch(place) is not None and not place.startswith(_NOT_THEIRS),
        "aws": _CHAINS.fullmatch(reference) is not None,
        "google": _CHAINS.fullmatch(reference) is not None,
    }
    if known.get(kind):
        return
    # The reference itself is not repeated: somebody may have put the secret there.
    raise NoCredential(
        "credential must be env:NAME (a variable of the gateway's environment), file:PATH (an absolute path), store:NAME (kept encrypted:"
        " `narthex credentials set NAME`), header:x-NAME (a header of the caller's request), aws:default, aws:profile:NAME"
        " or google:default."
    )


def header_of(reference: str | None) -> str | None:
    """The header of the caller's request in which a credential comes; None: it does not come so."""
    return reference.removeprefix("header:") if reference is not None and reference.startswith("header:") else None


def read(reference: str | None, stored: Stored) -> str | None:
    """The secret, without white space around it; of a cloud's own chain, which is asked later, the reference itself. None: none is named.

    Raises NoCredential if it is named and not there.
    """
    if reference is None or _CHAINS.fullmatch(reference):
        return reference
    kind, _, place = reference.partition(":")
    match kind:
        case "env":
            secret = os.environ.get(place, "")
            where = f"the environment variable {place}"
        case "store":
            secret = stored(place)
            where = f"the store, under the name {place}"
        case _:
            where = f"the file {place}"
            try:
                secret = Path(place).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as fault:
                raise NoCredential(f"The credential in {where} cannot be read: {type(fault).__name__}.") from None
    return usable(secret, where)


def usable(secret: str, where: str) -> str:
    """Raises NoCredential for what can be none: it would not pass through a header. JSON, as clouds give theirs, may have lines."""
    secret = secret.strip()
    if not secret:
        raise NoCredential(f"There is no credential in {where}: nothing is there.")
    if not secret.isascii() or not (secret.isprintable() or secret.startswith("{")):
        raise NoCredential(f"There is no usable credential in {where}: it has a line break, or a character that no header can hold.")
    if _CHAINS.fullmatch(secret):  # whoever may say a credential may not say that the gateway's own be taken
        raise NoCredential(f"There is no credential in {where}, but the name of a cloud's own chain, which only a configuration may name.")
    return secret


def brought(secret: str, header: str) -> str:
    """What a caller sends as its own. Raises NoCredential, also for one whose tokens would be asked for where the caller pleases."""
    secret = usable(secret, f"the header {header}")
    if secret.startswith("{"):
        try:
            said = json.loads(secret)
        except (ValueError, RecursionError):
            raise NoCredential(f"The credential in the header {header} is not JSON.") from None
        server = urlsplit(str(said.get("token_uri", _TOKEN_SERVERS[0])))
        if (server.scheme, server.netloc) not in {urlsplit(each)[:2] for each in _TOKEN_SERVERS}:
            raise NoCredential(f"The credential in the header {header} names a token server that is not Google's.")
    return secret


def stored_name(name: str) -> str:
    """A name that store:NAME can say. Raises NoCredential."""
    if _STORED.fullmatch(name) is None:
        raise NoCredential(
            "A stored credential's name has letters, digits, dots, dashes and underscores, begins with one of the first two,"
            " and has at most 100 characters."
        )
    return name
