"""A shadow in one line, as `narthex functions show` and `narthex models show` print it."""

from app.cli.output import printable
from app.domain.routing import ShadowConfig
from app.process.plain_numbers import plain_number


def describe_shadow(shadow: ShadowConfig) -> str:
    cost = "" if shadow.usd_per_day is None else f", {plain_number(shadow.usd_per_day)} USD a day"
    bounds = f"{shadow.max_concurrent} at once, {shadow.per_minute} a minute{cost}"
    return f"Shadow: {shadow.share:.4g} of requests again by {printable(shadow.to)}, paid by {printable(shadow.team)} ({bounds})."
