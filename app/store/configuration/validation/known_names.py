"""The names that a configuration may refer to."""

from collections.abc import Collection

from msgspec import Struct


class KnownNames(Struct, frozen=True):
    """Names that are not in the snapshot."""

    teams: Collection[str] = ()
    keys: Collection[str] = ()
    output_tokens: int | None = None  # the setting for models without one of their own; None: unknown here
