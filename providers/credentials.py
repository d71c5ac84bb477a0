"""Credentials: named in the configuration, read where they are, never kept or shown with it."""

import os
import re
from pathlib import Path


class NoCredential(ValueError):
    """A credential that is named and cannot be read; the message names where, never what."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(reference: str | None) -> None:
    """Raises NoCredential unless `reference` is None, env:NAME or file:PATH. The value itself need not be there yet."""
    if reference is None:
        return
    kind, _, place = reference.partition(":")
    if kind == "file" and place.startswith("/"):
        return
    if kind == "env" and _NAME.fullmatch(place):
        return
    # The reference itself is not repeated: somebody may have put the secret there.
    raise NoCredential("credential must be env:NAME (a variable of the gateway's environment) or file:PATH (an absolute path).")


def read(reference: str | None) -> str | None:
    """The secret, without white space around it. None if none is named. Raises NoCredential if it is named and not there."""
    if reference is None:
        return None
    kind, _, place = reference.partition(":")
    if kind == "env":
        secret = os.environ.get(place, "")
        where = f"the environment variable {place}"
    else:
        where = f"the file {place}"
        try:
            secret = Path(place).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            raise NoCredential(f"The credential in {where} cannot be read: {type(fault).__name__}.") from None
    secret = secret.strip()
    if not secret or not secret.isprintable() or not secret.isascii():
        raise NoCredential(f"There is no usable credential in {where}.")
    return secret
