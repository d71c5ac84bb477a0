"""Rules of a model family by version: a version that is newer than all known ones gets the newest known rules.

A new model is usually stricter than the one before it, and never accepts everything: a field that was dropped and reported costs a caller
less than a request that its host refuses.
"""

from collections.abc import Sequence
from typing import TypeVar

Version = tuple[int, ...]
Rules = TypeVar("Rules")


def rules_for_version(rows: Sequence[tuple[Version, Rules]], version: Version | None) -> Rules:
    """The rules of the newest row that is not newer than `version`; of the oldest row for a version before all of them.

    There is at least one of `rows`, the oldest first. Where `version` is None, the name has none, as aliases of the newest model do, so the
    last row counts.
    """
    if version is None:
        return rows[-1][1]
    return next((rules for row_version, rules in reversed(rows) if row_version <= version), rows[0][1])
