"""Unshown: records that hold a secret. Whoever prints one, in a log or a traceback, sees its name alone."""

from msgspec import Struct


class SecretRecord(Struct, frozen=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"
