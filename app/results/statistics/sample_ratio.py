"""The sample-ratio check: were units split as the weights say? If not, something loses or adds units of one arm, and no result holds.

Multinomial e-process with a Dirichlet prior around the weights: Lindon, Malek 2022, https://arxiv.org/abs/2011.03567. Exact for all
weights, at any time. Give it units at assignment, each once; and again units with an outcome: a mismatch only there is survivorship, or
lost feedback. How often it happens: Fabijan et al. 2019 (KDD), https://doi.org/10.1145/3292500.3330722.
"""

from collections.abc import Mapping, Sequence
from math import inf, lgamma, log

from msgspec import Struct

from app.results.statistics.confidence_sequence import always_valid_p
from app.results.statistics.sums import Stratum

ALPHA = 0.01
# The sample size whose noise the prior expects of a mismatch.
PRIOR_UNITS = 1000.0


class SampleRatio(Struct, frozen=True):
    log_e_value: float
    p: float
    mismatch: bool


def sample_ratio(counts: Sequence[tuple[Mapping[str, int], Mapping[str, float]]], alpha: float = ALPHA) -> SampleRatio:
    """Checks all versions together. Each has its units by arm, and the arms' weights."""
    log_e = sum(log_e_value(units, weights) for units, weights in counts)
    return SampleRatio(log_e, always_valid_p(log_e), log_e >= -log(alpha))


def sample_ratio_of(strata: Sequence[Stratum], alpha: float = ALPHA) -> SampleRatio:
    """Checks the units that the strata hold, which are those with an outcome."""
    return sample_ratio([({arm: sums.n for arm, sums in each.arms.items()}, each.probabilities) for each in strata], alpha)


def log_e_value(units: Mapping[str, int], weights: Mapping[str, float], prior_units: float = PRIOR_UNITS) -> float:
    """Returns the evidence of a mismatch in one version. A unit of an arm that had no chance is proof."""
    total_weight = sum(weights.values())
    shares = {arm: weight / total_weight for arm, weight in weights.items() if weight > 0}
    if any(count for arm, count in units.items() if arm not in shares):
        return inf
    total = sum(units.values())
    log_e = lgamma(prior_units) - lgamma(prior_units + total)
    for arm, share in shares.items():
        count, prior = units.get(arm, 0), prior_units * share
        log_e += lgamma(prior + count) - lgamma(prior) - count * log(share)
    return log_e
