"""Readiness: which units a difference of means may rest on (versions past their burn-in), and what the others
lack.
"""

from collections.abc import Sequence

from msgspec import Struct

from app.results.statistics.burn_in import unseen_squares, what_lacks
from app.results.statistics.pairs import NO_UNITS, Pair
from app.results.statistics.plan import Plan
from app.results.statistics.propensity import propensity_weighted
from app.results.statistics.strata import Contrast, combine_by_overlap, contrast


class Ready(Struct, frozen=True):
    """The contrast of units that are ready. It is None if nothing may be said yet, for `reason`."""

    contrast: Contrast | None
    reason: str | None = None


def ready_contrast(found: Sequence[Pair], plan: Plan) -> Ready:
    """Versions that lack units are one stratum together, weighted by their probabilities, once they have enough between them.

    So experiments whose weights adapt every hour have results, too: none of their versions may ever have enough of its own.
    """
    lacking = [what_lacks(pair, plan.kind, plan.cap) for pair in found]
    ready = [pair for pair, lacks in zip(found, lacking, strict=True) if lacks is None]
    unseen = unseen_squares(plan.kind, plan.cap)
    contrasts = [contrast(pair, unseen=unseen) for pair in ready]
    small = [pair for pair, lacks in zip(found, lacking, strict=True) if lacks is not None]
    reason = what_lacks(together(small), plan.kind, plan.cap) if small else None
    if len(small) > 1 and reason is None and (of_small := propensity_weighted(small, unseen)):
        contrasts.append(of_small)
    if not contrasts:
        return Ready(None, reason)
    combined = combine_by_overlap(contrasts)
    # A covariate may vary where the values do not: then only it would be left of the variance.
    varies = min(combined.variance, combined.unadjusted_variance) > 0
    return Ready(combined) if varies else Ready(None, "all units of an arm have the same value")


def together(found: Sequence[Pair]) -> Pair:
    """Returns pairs as one. Its probability is the most unequal one, as that decides what is needed."""
    uneven = max(found, key=lambda pair: abs(pair.probability - 0.5))
    return Pair(
        uneven.version,
        uneven.probability,
        sum((pair.control for pair in found), NO_UNITS),
        sum((pair.arm for pair in found), NO_UNITS),
    )
