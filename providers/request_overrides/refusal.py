"""The error for an override that is not allowed, or that says nothing."""

from typing import NoReturn

from providers.canonical.errors import InvalidRequest


def refuse(path: str, why: str) -> NoReturn:
    raise InvalidRequest(f"`{path}`: {why}.", param=path)
