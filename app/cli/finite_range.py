"""Numbers that an option takes: FiniteRange and FiniteNumber. click's own types let `nan` pass, and without a maximum `inf`."""

import math
import re
from typing import Any

import click


class FiniteRange(click.FloatRange):
    def _describe_range(self) -> str:
        """The bounds as people write them: 0<x<1, and not 0.0<x<1.0."""
        return re.sub(r"\.0(?!\d)", "", super()._describe_range())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a finite number.", param, ctx)


class FiniteNumber(click.types.FloatParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a finite number.", param, ctx)
