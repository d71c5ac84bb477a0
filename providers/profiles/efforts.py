"""Efforts: how hard a model reasons, and the nearest one that a model has."""

from collections.abc import Sequence

from providers.canonical.chat import Effort

# From the least to the most.
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def nearest_effort(effort: Effort, accepted: Sequence[Effort]) -> Effort:
    """The least effort of `accepted` that is not less than `effort`, else the most. There is at least one, and the least comes first."""
    rank = EFFORTS.index(effort)
    for each in accepted:
        if EFFORTS.index(each) >= rank:
            return each
    return accepted[-1]
