"""Experiments by the thousand, with a look after every unit: the formulas of app/results/statistics once more, on arrays.

What is tested is the promise of the formulas, so they are written here a second time, for all looks at once; `agrees_with_app` holds them
against the real ones at looks drawn by chance.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from app.results.statistics.boolean_difference import bets
from app.results.statistics.burn_in import EQUAL_WITHIN, OF_EACH_OUTCOME, is_equal, units_needed, unseen_squares
from app.results.statistics.compare import compare
from app.results.statistics.confidence_sequence import one_sided_critical_z
from app.results.statistics.plan import Plan
from app.results.statistics.sums import Stratum, UnitSums
from app.results.statistics.tuning import optimal_kappa

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
# Units at once: what still fits a processor's cache is several times faster.
CHUNK = 150_000


@dataclass(frozen=True)
class Versions:
    """Units of each version, one version after the other, and the arm's share in each. `level`: what each adds to a unit's value."""

    units: tuple[int, ...]
    shares: tuple[float, ...]
    levels: tuple[float, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.units)

    def of_unit(self, values: tuple[float, ...]) -> Floats:
        return np.repeat(np.array(values, dtype=np.float64), self.units)


def one(units: int, share: float) -> Versions:
    return Versions((units,), (share,), (0.0,))


RAMP = Versions((1667, 1667, 1666), (0.05, 0.2, 0.5), (0.30, 0.36, 0.42))


@dataclass(frozen=True)
class Units:
    """The units of each experiment."""

    arm: Booleans  # by experiment and unit, as the others: whether the unit is of the arm
    value: Floats
    covariate: Floats | None = None


# From a generator, how many experiments, the versions, and which units are of the arm: values, or values and covariates.
Values = Callable[[np.random.Generator, Versions, Booleans], Units]


def experiments(values: Values, versions: Versions, count: int, seed: int) -> Iterator[Units]:
    """Yields so many experiments in chunks, each with its own seed."""
    size = max(1, CHUNK // versions.total)
    for chunk in range(0, count, size):
        generator = np.random.default_rng([seed, chunk])
        arm = generator.random((min(size, count - chunk), versions.total)) < versions.of_unit(versions.shares)
        yield values(generator, versions, arm)


def booleans(rate: float, effect: float = 0.0) -> Values:
    """Values of 0 and 1. `effect` is on the rate of the arm; the levels of versions add to it."""

    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        return Units(arm, (generator.random(arm.shape) < rate + effect * arm + versions.of_unit(versions.levels)).astype(np.float64))

    return draw


def normals(effect: float = 0.0) -> Values:
    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        return Units(arm, generator.standard_normal(arm.shape) + effect * arm + versions.of_unit(versions.levels) + 5)

    return draw


def log_normals(sigma: float, cap: float | None = None) -> Values:
    """Values of a log-normal distribution; levels multiply. `cap` is a quantile of the first version's distribution, frozen before the
    start.
    """

    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        drawn = np.exp(sigma * generator.standard_normal(arm.shape) + versions.of_unit(versions.levels))
        return Units(arm, drawn if cap is None else np.minimum(drawn, cap))

    return draw


def rarely(share: float, value: float) -> Values:
    """Five, more or less, and rarely this: a latency with time-outs."""

    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        usual = 5 + 0.5 * generator.standard_normal(arm.shape)
        return Units(arm, np.where(generator.random(arm.shape) < share, value, usual))

    return draw


def clustered(rate: float | None = None) -> Values:
    """A unit has 1 to 8 inferences that are alike (a correlation of 0.3), and counts as their mean. `rate`: of booleans."""

    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        inferences = generator.integers(1, 9, arm.shape)
        if rate is None:
            own = sqrt(0.3) * generator.standard_normal(arm.shape)
            return Units(arm, 5 + own + sqrt(0.7) * generator.standard_normal(arm.shape) / np.sqrt(inferences))
        of_unit = generator.beta(rate * 7 / 3, (1 - rate) * 7 / 3, arm.shape)  # an intra-class correlation of 1 / (1 + 7/3)
        return Units(arm, generator.binomial(inferences, of_unit) / inferences)

    return draw


def with_covariate(correlation: float, effect: float = 0.0) -> Values:
    def draw(generator: np.random.Generator, versions: Versions, arm: Booleans) -> Units:
        before = generator.standard_normal(arm.shape)
        rest = sqrt(1 - correlation**2) * generator.standard_normal(arm.shape)
        return Units(arm, correlation * before + rest + effect * arm + 5, before + 3)

    return draw


def planned_overlap(versions: Versions, plan: Plan) -> float:
    return plan.planned_units * versions.shares[0] * (1 - versions.shares[0])


def count_evidence(units: Units, versions: Versions, plan: Plan, difference: float = 0.0, least: float = -np.inf) -> Floats:
    """boolean_difference.py: the two-sided log e-value after each unit, by experiment and unit; -infinity where it is below `least`."""
    centres, log_weights, etas = (np.array(each) for each in bets(planned_overlap(versions, plan), plan.alpha, plan.expected_rate))
    version = np.repeat(np.arange(len(versions.units)), versions.units)
    tables = [np.array(log_factors(sign * etas, centres, versions, difference)) for sign in (1.0, -1.0)]
    rough = [(each.astype(np.float32), log_weights.astype(np.float32)) for each in tables]
    found = np.full(units.arm.shape, -np.inf)
    cells = version * 4 + units.arm * 2 + units.value.astype(np.int64)
    for experiment, cell in enumerate(cells):
        counts = np.zeros((len(cell), len(tables[0])))
        counts[np.arange(len(cell)), cell] = 1
        np.cumsum(counts, axis=0, out=counts)
        for table, (rough_table, rough_weights) in zip(tables, rough, strict=True):
            # An average is at most the number of its terms times the largest of them; few looks come near in equal arms.
            largest = (counts.astype(np.float32) @ rough_table + rough_weights).max(axis=1)
            near = np.flatnonzero(largest + log(len(etas)) - log(2) > least - 0.1)
            terms = counts[near] @ table + log_weights
            of_side = largest[near] + np.log(np.exp(terms - largest[near, None]).sum(axis=1)) - log(2)
            found[experiment, near] = np.maximum(found[experiment, near], of_side)
    return found


def log_factors(etas: Floats, centres: Floats, versions: Versions, difference: float) -> list[Floats]:
    """Returns the logarithms of what one unit multiplies evidence by: for each version the control's 0 and 1, then the arm's."""
    rows: list[Floats] = []
    for share in versions.shares:
        middle = share * (1 - share) * difference
        rows += [np.log1p(etas * (side * (value - centres) - middle)) for side in (-share, 1 - share) for value in (0.0, 1.0)]
    return rows


@dataclass(frozen=True)
class Looks:
    """The difference, its standard error (infinite where it is too early) and kappa after each unit."""

    difference: Floats
    error: Floats
    kappa: Floats

    def half_width(self, alpha: float) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.kappa > 0, self.error * np.sqrt((1 + 1 / self.kappa) * (np.log1p(self.kappa) - 2 * log(alpha))), np.inf)

    def miss(self, truth: float, alpha: float) -> Booleans:
        return np.asarray(np.abs(self.difference - truth) > self.half_width(alpha))

    def exceed(self, margin: float, alpha: float) -> Booleans:
        """One-sided; the critical z between those of a grid of kappas."""
        grid = np.geomspace(1e-3, 1e4, 800)
        critical = np.interp(np.log(np.maximum(self.kappa, 1e-3)), np.log(grid), [one_sided_critical_z(each, alpha) for each in grid])
        return np.asarray(self.difference - margin > critical * self.error)


def mean_looks(units: Units, versions: Versions, plan: Plan) -> Looks:
    """ready.py, strata.py, propensity.py, cuped.py and confidence_sequence.py."""
    version = np.repeat(np.arange(len(versions.units)), versions.units)
    total, of_difference, of_variance = (np.zeros(units.arm.shape) for _ in range(3))
    small = Small(units.arm.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for number, share in enumerate(versions.shares):
            here = version == number
            control, arm = running_sums(units, here & ~units.arm), running_sums(units, here & units.arm)
            lacks = too_few(control, arm, is_equal(share), plan)
            unseen = unseen_squares(plan.kind, plan.cap)
            theta = slope(control + arm)
            difference = arm[1] / arm[0] - control[1] / control[0] - theta * (arm[3] / arm[0] - control[3] / control[0])
            variance = unit_variance(control, theta) / control[0] + unit_variance(arm, theta) / arm[0]
            variance += unseen / control[0] ** 2 + unseen / arm[0] ** 2
            overlap = np.where(lacks, 0.0, control[0] * arm[0] / (control[0] + arm[0]))
            total += overlap
            of_difference += np.where(lacks, 0.0, overlap * difference)
            of_variance += np.where(lacks, 0.0, overlap**2 * variance)
            small.add(lacks, share, control, arm)
        if len(versions.shares) > 1:
            overlap, difference, variance = small.contrast(plan)
            total += overlap
            of_difference += overlap * difference
            of_variance += overlap**2 * variance
        kappa = optimal_kappa(plan.alpha) * total / planned_overlap(versions, plan)
        difference, variance = of_difference / total, of_variance / total**2
    never = (total == 0) | ~(variance > 0)
    return Looks(np.where(never, 0.0, difference), np.where(never, np.inf, np.sqrt(np.maximum(variance, 0))), kappa)


def running_sums(units: Units, mine: Booleans) -> Floats:
    """n, y, yy, x, xx, xy, zeros and ones after each unit."""
    value, covariate = units.value, units.covariate
    of_unit: dict[int, Floats | Booleans] = {0: mine, 1: value, 2: value**2, 6: value == 0, 7: value == 1}
    if covariate is not None:
        of_unit |= {3: covariate, 4: covariate**2, 5: covariate * value}
    found = np.zeros((8, *value.shape))
    for place, each in of_unit.items():
        np.cumsum(each * mine, axis=1, out=found[place])
    return found


def too_few(control: Floats, arm: Floats, equal_split: bool, plan: Plan) -> Booleans:
    if plan.kind != "boolean" and not equal_split and plan.cap is None:
        return np.full(arm.shape[1:], True)
    fewest = np.minimum(control[0], arm[0])
    outcomes = [np.minimum(each[0] - each[6], each[0] - each[7]) for each in (control, arm)]
    return np.asarray(fewest < units_needed(plan.kind, equal_split)) | np.asarray(np.minimum(outcomes[0], outcomes[1]) < OF_EACH_OUTCOME)


def slope(both: Floats) -> Floats:
    n, y, x, xx, xy = both[0], both[1], both[3], both[4], both[5]
    spread = n * xx - x * x
    theta = np.zeros(n.shape)
    np.divide(n * xy - x * y, spread, out=theta, where=spread > 1e-12 * n * xx)
    return theta


def unit_variance(sums: Floats, theta: Floats) -> Floats:
    n, y, yy, x, xx, xy, zeros, ones = (sums[place] for place in range(8))
    means: Floats = (n * yy - y * y - 2 * theta * (n * xy - x * y) + theta**2 * (n * xx - x * x)) / (n * (n - 1))
    is_boolean = np.asarray(zeros + ones == n)
    means[is_boolean] = (zeros * ones / n**2)[is_boolean]
    return means


class Small:
    """Versions that lack units, together: at each look another set of them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._weighted = np.zeros((2, *shape)), np.zeros((2, *shape))
        self._squared = np.zeros((3, *shape)), np.zeros((3, *shape))
        self._plain = np.zeros((8, *shape)), np.zeros((8, *shape))
        self._overlap, self._versions, self._uneven = (np.zeros(shape) for _ in range(3))
        self._largest = np.zeros(shape), np.zeros(shape)

    def add(self, lacks: Booleans, share: float, control: Floats, arm: Floats) -> None:
        for side, sums, factor in ((0, control, share), (1, arm, 1 - share)):
            self._weighted[side][:] += factor * lacks * sums[:2]
            self._squared[side][:] += factor**2 * lacks * sums[:3]
            self._plain[side][:] += lacks * sums
            np.maximum(self._largest[side], factor * lacks * (control[0] + arm[0] > 0), out=self._largest[side])
        self._overlap += lacks * (control[0] + arm[0]) * share * (1 - share)
        self._versions += lacks
        self._uneven = np.maximum(self._uneven, lacks * abs(share - 0.5))

    def contrast(self, plan: Plan) -> tuple[Floats, Floats, Floats]:
        """Weight, difference and variance, all 0 where they have too few units together, or are one version."""
        lacks = [too_few(*self._plain, equal_split, plan) for equal_split in (True, False)]
        early = np.where(self._uneven > EQUAL_WITHIN, lacks[1], lacks[0]) | (self._versions < 2)
        means: list[Floats] = []
        variances: list[Floats] = []
        unseen = unseen_squares(plan.kind, plan.cap)
        for (n, y), (nn, ny, nyy), plain, largest in zip(self._weighted, self._squared, self._plain, self._largest, strict=True):
            value = y / n
            means.append(value)
            variances.append((nyy - 2 * value * ny + nn * value**2) / n**2 * plain[0] / (plain[0] - 1) + unseen * (largest / n) ** 2)
        return (
            np.where(early, 0.0, self._overlap),
            np.where(early, 0.0, means[1] - means[0]),
            np.where(early, 0.0, variances[0] + variances[1]),
        )


def strata_at(units: Units, versions: Versions, experiment: int, seen: int) -> list[Stratum]:
    """Returns what the app would have been given after so many units."""
    found: list[Stratum] = []
    start = 0
    for number, (count, share) in enumerate(zip(versions.units, versions.shares, strict=True)):
        end = min(start + count, seen)
        if end > start:
            arms: dict[str, UnitSums] = {}
            for name, of_arm in (("control", False), ("arm", True)):
                mine = units.arm[experiment, start:end] == of_arm
                y = units.value[experiment, start:end][mine]
                x = units.covariate[experiment, start:end][mine] if units.covariate is not None else np.zeros_like(y)
                counts = int((y == 0).sum()), int((y == 1).sum())
                total, squares, of_x, of_xx, of_xy = (float(each.sum()) for each in (y, y * y, x, x * x, x * y))
                arms[name] = UnitSums(len(y), total, squares, *counts, of_x, of_xx, of_xy)
            found.append(Stratum(number + 1, "ours", {"control": 1 - share, "arm": share}, arms))
        start += count
    return found


def agrees_with_app(units: Units, versions: Versions, plan: Plan, looks: int, seed: int) -> None:
    """The arrays and `compare` say the same, at looks drawn by chance."""
    generator = np.random.default_rng(seed)
    evidence = count_evidence(units, versions, plan) if by_counts(units, plan) else None
    means = mean_looks(units, versions, plan)
    half_width = means.half_width(plan.alpha)
    for _ in range(looks):
        experiment, seen = int(generator.integers(len(units.arm))), int(generator.integers(20, versions.total + 1))
        said = compare(strata_at(units, versions, experiment, seen), "control", "arm", plan)
        if evidence is not None:
            assert abs(said.log_e_value - evidence[experiment, seen - 1]) < 1e-6
        elif said.interval is None:
            assert half_width[experiment, seen - 1] == np.inf, (experiment, seen)
        else:
            low = means.difference[experiment, seen - 1] - half_width[experiment, seen - 1]
            assert abs(said.interval.low - low) < 1e-6 * max(1.0, abs(low)), (experiment, seen)


def by_counts(units: Units, plan: Plan) -> bool:
    return plan.kind == "boolean" and plan.complete and bool(np.isin(units.value, (0, 1)).all())


def rejections(units: Units, versions: Versions, plan: Plan, truth: float = 0.0) -> Booleans:
    """Returns, for each experiment, whether any look excludes this difference."""
    if by_counts(units, plan):
        threshold = -log(plan.alpha)
        return np.any(count_evidence(units, versions, plan, truth, threshold) >= threshold, axis=1)
    return np.any(mean_looks(units, versions, plan).miss(truth, plan.alpha), axis=1)


def upper_bound(found: int, runs: int, confidence: float = 0.99) -> float:
    """Clopper-Pearson: the largest rate at which so few would have been found with the probability 1 - confidence."""
    low, high = found / runs, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        low, high = (rate, high) if at_most(found, runs, rate) > 1 - confidence else (low, rate)
    return high


def at_most(found: int, runs: int, rate: float) -> float:
    """The binomial probability of so many or fewer."""
    log_term, total = runs * log1p(-rate), 0.0
    for k in range(found + 1):
        total += exp(log_term)
        log_term += log((runs - k) / (k + 1)) + log(rate) - log1p(-rate)
    return total
