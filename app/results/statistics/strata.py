"""Differences over weights versions: within each version first, then combined. Pooling units over a ramp is Simpson's paradox.

Overlap weights n1 n0 / (n1 + n0) depend on counts only, so the sum adds independent pieces, as a sequence wants; inverse variances
correlate with the differences. Li, Morgan, Zaslavsky 2018, https://arxiv.org/abs/1404.1785; the paradox in experiments: Crook, Frasca,
Kohavi, Longbotham 2009 (KDD), https://doi.org/10.1145/1557019.1557139.
"""

from collections.abc import Sequence

from msgspec import Struct

from app.results.statistics.cuped import adjusted_difference, adjusted_variance, slope
from app.results.statistics.moments import mean, variance
from app.results.statistics.pairs import Pair


class Contrast(Struct, frozen=True):
    """The difference of an arm and the control over strata.

    `difference` is arm less control, adjusted by covariates where these vary, and `variance` is its own.
    `control` and `arm` are plain means by the same weights, with their variances.
    """

    difference: float
    variance: float
    unadjusted_variance: float  # what `variance` would be without covariates
    control: float
    control_variance: float
    arm: float
    arm_variance: float
    overlap: float  # the sum of weights, the amount of information
    control_units: int
    arm_units: int

    @property
    def units(self) -> int:
        return self.control_units + self.arm_units


def overlap_weighted_unadjusted(found: Sequence[Pair]) -> Contrast:
    """Returns the difference by overlap without covariates: a single unit of each arm suffices where units
    are boolean.
    """
    return combine_by_overlap([contrast(pair, theta=0.0) for pair in found])


def combine_by_overlap(contrasts: Sequence[Contrast]) -> Contrast:
    return combine(contrasts, [each.overlap for each in contrasts])


def combine(contrasts: Sequence[Contrast], weights: Sequence[float]) -> Contrast:
    total = sum(weights)
    of_pairs = [(weight / total, each) for weight, each in zip(weights, contrasts, strict=True)]
    return Contrast(
        difference=sum(w * each.difference for w, each in of_pairs),
        variance=sum(w * w * each.variance for w, each in of_pairs),
        unadjusted_variance=sum(w * w * each.unadjusted_variance for w, each in of_pairs),
        control=sum(w * each.control for w, each in of_pairs),
        control_variance=sum(w * w * each.control_variance for w, each in of_pairs),
        arm=sum(w * each.arm for w, each in of_pairs),
        arm_variance=sum(w * w * each.arm_variance for w, each in of_pairs),
        overlap=sum(each.overlap for _, each in of_pairs),
        control_units=sum(each.control_units for _, each in of_pairs),
        arm_units=sum(each.arm_units for _, each in of_pairs),
    )


def contrast(pair: Pair, theta: float | None = None, unseen: float = 0.0) -> Contrast:
    """Returns the difference in one stratum.

    `theta` is the covariate's slope; if it is None, it is what the data say. `unseen` is that of
    unseen_squares().
    """
    control, arm = pair.control, pair.arm
    theta = slope(control, arm) if theta is None else theta
    of_control, of_arm = variance(control) / control.n, variance(arm) / arm.n
    more_of_control, more_of_arm = unseen / control.n**2, unseen / arm.n**2
    adjusted = adjusted_variance(control, theta) / control.n + adjusted_variance(arm, theta) / arm.n
    return Contrast(
        difference=adjusted_difference(control, arm, theta),
        variance=adjusted + more_of_control + more_of_arm,
        unadjusted_variance=of_control + of_arm + more_of_control + more_of_arm,
        control=mean(control),
        control_variance=of_control + more_of_control,
        arm=mean(arm),
        arm_variance=of_arm + more_of_arm,
        overlap=pair.overlap,
        control_units=control.n,
        arm_units=arm.n,
    )
