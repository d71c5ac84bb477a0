"""Fields that an engine neither has nor refuses: it ignores them silently, so a caller would never learn of it."""

from collections.abc import Collection

from providers.canonical.raw_json import NULL, Body
from providers.drop_policy import DropPolicy


def drop_unknown_fields(body: Body, known_fields: Collection[str], drop_policy: DropPolicy) -> None:
    """Drops or refuses every top-level field of a body that is otherwise ready. Null requests nothing and is left out.

    Raises Unsupported for a field that the caller does not allow to be dropped.
    """
    for key in sorted(body.keys() - known_fields):
        if drop_policy.accepts(key):
            continue
        if body[key] == NULL:
            del body[key]
        else:
            drop_policy.drop_or_refuse(key, "it has no such field, and ignores those that it does not have.")
