"""Sentences: what may be concluded from a comparison, and what may not."""

from app.results.experiments.metric_facts import MetricFacts
from app.results.statistics.compare import Comparison


def conclusion_of(metric: MetricFacts, control: str, arm: str, found: Comparison, more_days: float | None) -> str:
    seen = _difference(metric, found)
    match found.verdict:
        case "better" | "worse":
            word = found.verdict
            if metric.optimize is None:
                word = "higher" if (found.difference or 0) > 0 else "lower"
            return (
                f"{arm} is {word} than {control} in {metric.name}: {seen}. This may be concluded now, however often it was looked at."
                " Where it is the reason to stop, the difference seen is likely too large: quote the interval."
            )
        case "equal":
            return f"{arm} and {control} are equal in {metric.name}, as far as it matters: {seen}."
        case "needs a cap":
            return (
                f"Nothing may be concluded of {metric.name}: {found.reason}. Start the next experiment with `caps`, or with equal weights."
            )
        case "too early":
            return f"Too early to say anything of {metric.name}: {found.reason}.{_wait(more_days)}"
        case "no difference yet":
            return (
                f"No difference of {arm} and {control} in {metric.name} has shown yet: {seen}. That does not mean that they are equal:"
                f" any difference within the interval is possible.{_wait(more_days, if_true=True)}"
            )


def mismatch_warning(p: float, of: str) -> str:
    return (
        f"Sample ratio mismatch (p = {p:.2g}): arms have other shares of {of} than their weights say, so something adds or loses units of"
        " an arm. Nothing may be concluded before that is found."
    )


def lost_values_warning(metric: str, p: float) -> str:
    return (
        f"Units with a value of {metric} are split otherwise than units (p = {p:.2g}): an arm loses values, such as of feedback that nobody"
        f" gives after a failure. Differences of {metric} are of the survivors, so nothing may be concluded of all units."
    )


def amount(metric: MetricFacts, value: float, *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    match metric.unit:
        case "share of units":
            return f"{value * 100:{sign}.3g} " + ("points" if signed else "%")
        case "seconds":
            return f"{value:{sign}.3g} s"
        case "US dollars":
            return f"{value:{sign}.3g} $"
        case "tokens":
            return f"{value:{sign}.4g}"
        case "value":
            return f"{value:{sign}.4g}"


def _difference(metric: MetricFacts, found: Comparison) -> str:
    difference = "no estimate" if found.difference is None else amount(metric, found.difference, signed=True)
    if found.interval is None:
        return difference
    ends = (amount(metric, end, signed=True) for end in (found.interval.low, found.interval.high))
    return f"{difference}, between {' and '.join(ends)}"


def _wait(more_days: float | None, *, if_true: bool = False) -> str:
    if more_days is None:
        return ""
    days = "less than a day" if more_days < 1 else f"about {more_days:.0f} more days"
    if if_true:
        return f" If the difference seen now is the true one, it takes {days} to be certain of it, 4 times out of 5."
    return f" At the present rate that takes {days}."
