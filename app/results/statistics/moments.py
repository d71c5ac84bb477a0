"""Mean and variance of an arm from its sums, and the covariance with the covariate."""

from app.results.statistics.sums import UnitSums

# Sums of equal floats differ from n times the value by rounding: what is left of a variance below this share is that.
ROUNDING = 1e-12


def mean(sums: UnitSums) -> float:
    return sums.y / sums.n


def variance(sums: UnitSums) -> float:
    """Returns the variance of units: p (1 - p) where they are boolean, else with n - 1.

    It is divided by n only after subtracting, so that integers stay exact.
    """
    if sums.is_boolean:
        return sums.ones * sums.zeros / sums.n**2
    return sum_of_squares(sums.n, sums.y, sums.yy) / (sums.n - 1)


def covariate_variance(sums: UnitSums) -> float:
    return sum_of_squares(sums.n, sums.x, sums.xx) / (sums.n - 1)


def covariance(sums: UnitSums) -> float:
    return (sums.n * sums.xy - sums.x * sums.y) / (sums.n * (sums.n - 1))


def sum_of_squares(n: int, total: float, squares: float) -> float:
    """Returns the sum of squared deviations from the mean."""
    scaled = n * squares - total * total
    return scaled / n if scaled > ROUNDING * n * squares else 0.0
