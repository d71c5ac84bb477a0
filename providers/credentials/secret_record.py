"""SecretRecord: the base of all records that hold a secret. Printed, in a log or a traceback, they show their name only."""

from msgspec import Struct


class SecretRecord(Struct, frozen=True):
    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"
