"""Values of options as people type them, and as requests have them: times, durations, lists, JSON."""

import contextlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click
import msgspec

from app.cli.finite_range import FiniteNumber, FiniteRange
from app.cli.operations.manifest import Kind, Parameter
from app.cli.times import DurationParam, MomentParam, PastMomentParam
from app.store.keys.key_format import parse_prefix
from providers.canonical.raw_json import DECODE_ERRORS

_BOUNDS = {"=": "value", ">=": "min", "<=": "max"}
_CONDITION = re.compile("([^<>=]+)(?:(>=|<=|=)(.+))?")


class JsonParam(click.ParamType[Any]):
    """A JSON value; what is no JSON is text."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return msgspec.json.decode(str(value))
        except DECODE_ERRORS:
            return value


class PairParam(click.ParamType[Mapping[str, Any]]):
    """NAME=VALUE, or a JSON object of them."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        try:
            return msgspec.json.decode(str(value), type=dict[str, Any])
        except DECODE_ERRORS:
            name, separator, text = str(value).partition("=")
        return {name: text} if name and separator and text else self.fail("it must be NAME=VALUE, such as team=search", param, ctx)


class NumberPairParam(PairParam):
    """NAME=NUMBER, or a JSON object of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        pairs = super().convert(value, param, ctx)
        return {name: FiniteNumber().convert(number, param, ctx) for name, number in pairs.items()}


class ShareParam(click.ParamType[float]):
    """A share, from 0 to 1, also written as a percentage."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number, percent, rest = str(value).partition("%")
        try:
            share = float(number) / (100 if percent else 1)
        except ValueError:
            share = -1.0
        if rest or not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share from 0 to 1, such as 0.5 or 50%.", param, ctx)
        return share


class ConditionParam(click.ParamType[Mapping[str, Any]]):
    """A condition on feedback: helpful=true, score>=0.8, score<=0.2, or comment."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        found = _CONDITION.fullmatch(str(value))
        operand = None
        with contextlib.suppress(*DECODE_ERRORS):
            operand = msgspec.json.decode(found[3].strip()) if found and found[2] else None
        is_fitting = isinstance(operand, bool) if found and found[2] == "=" else type(operand) in (int, float)
        if found is None or not (found[2] is None or is_fitting):
            self.fail(f"{value!r} is no condition: helpful=true, score>=0.8, score<=0.2, or comment", param, ctx)
        return {"metric": found[1].strip()} | ({_BOUNDS[found[2]]: operand} if found[2] else {})


class KeyParam(click.ParamType[str]):
    """The public part of a key."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if parse_prefix(str(value)) is None:
            self.fail("it is not the public part of a key, such as nx-0123456789ab", param, ctx)
        return str(value)


def param_type(parameter: Parameter) -> Any:
    """The type of click for a parameter's kind."""
    match parameter.kind:
        case "integer" if parameter.minimum is not None or parameter.maximum is not None:
            lowest, highest = (None if each is None else int(each) for each in (parameter.minimum, parameter.maximum))
            return click.IntRange(lowest, highest)
        case "integer" | "integers":
            return click.INT
        case "number" if parameter.minimum is not None or parameter.maximum is not None:
            opened = {"min_open": parameter.excludes_minimum, "max_open": parameter.excludes_maximum}
            return FiniteRange(parameter.minimum, parameter.maximum, **opened)
        case "number":
            return FiniteNumber()
        case "choice":
            return click.Choice(list(parameter.choices))
        case "moment":
            return MomentParam()
        case "past_moment":
            return PastMomentParam()
        case "duration":
            return DurationParam()
        case "pairs":
            return PairParam()
        case "number_pairs":
            return NumberPairParam()
        case "share":
            return ShareParam()
        case "conditions":
            return ConditionParam()
        case "key":
            return KeyParam()
        case "json":
            return JsonParam()
        case "file":
            return click.File("rb")
        case _:
            return click.STRING


def query_value(value: Any) -> str:
    """A value as a query has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case tuple() | list():
            return ",".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)


def body_value(kind: Kind, value: Any) -> Any:
    """A value as a JSON body has it."""
    if kind in ("pairs", "number_pairs"):
        return {name: text for each in value for name, text in each.items()}
    return value.isoformat() if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
