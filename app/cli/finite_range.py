"""FiniteRange: numbers that an option takes. click's own ranges let `nan` pass, and without a maximum `inf`."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a finite number.", param, ctx)
