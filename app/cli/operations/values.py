"""Values of options as people type them, and as requests have them: times, durations, lists, JSON."""

import contextlib
import importlib
import ipaddress
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import click
import msgspec

from app.cli.finite_range import FiniteNumber, FiniteRange
from app.cli.operations.manifest import Parameter
from app.cli.times import DurationParam, MomentParam, PastMomentParam
from app.store.keys.key_format import parse_prefix, public_prefix
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
    """NAME=VALUE, or a JSON object of them; a word that stands for some; or, for an edit, NAME= for null."""

    name = "pair"

    def __init__(self, words: Mapping[str, Any], *, is_edit: bool) -> None:
        self._words = words
        self._is_edit = is_edit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mapping[str, Any]:
        try:
            return msgspec.json.decode(str(value), type=dict[str, Any])
        except DECODE_ERRORS:
            name, separator, text = str(value).partition("=")
        if value in self._words:
            return self._words[value]
        if not name or not separator or not (text or self._is_edit):
            others = "".join(f", or {each}" for each in self._words)
            self.fail(f"it must be NAME=VALUE, such as team=search{others}", param, ctx)
        return {name: text or None}


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
    """The public part of a key: of a complete key, too, which must not be sent or shown. `may_be_unknown`: the operation refuses it."""

    name = "key"

    def __init__(self, *, may_be_unknown: bool) -> None:
        self._may_be_unknown = may_be_unknown

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if parse_prefix(str(value)) is None and not self._may_be_unknown:
            self.fail("it is not the public part of a key, such as nx-0123456789ab", param, ctx)
        return public_prefix(str(value))


class NameParam(click.ParamType[str]):
    """A text that is not empty."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value).strip() or self.fail("it must not be empty", param, ctx)


class NetworkParam(click.ParamType[str]):
    """An address, or a network in CIDR notation."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as fault:
            self.fail(f"{fault}; write it as 10.0.0.0/8 or 2001:db8::/32.", param, ctx)


class ParsedParam(click.ParamType[Any]):
    """A value that a function reads. `parse`: MODULE.FUNCTION of app.cli.operations, which is imported where a value is given."""

    name = "value"

    def __init__(self, parse: str) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        module, _, function = self._parse.partition(".")
        try:
            return getattr(importlib.import_module(f"app.cli.operations.{module}"), function)(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


def read_secret(prompt: str) -> str:
    """A secret from a prompt on a terminal, else from standard input; never from the command line, which others may see."""
    return click.prompt(prompt, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()


def param_type(parameter: Parameter) -> Any:
    """The type of click for a parameter's kind."""
    if parameter.parse:
        return ParsedParam(parameter.parse)
    match parameter.kind:
        case "text" if parameter.minimum:
            return NameParam()
        case "texts" if parameter.choices:
            return click.Choice([*parameter.choices, *parameter.words])
        case "networks":
            return NetworkParam()
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
        case "pairs" | "edits":
            return PairParam(parameter.words, is_edit=parameter.kind == "edits")
        case "number_pairs":
            return NumberPairParam(parameter.words, is_edit=False)
        case "share":
            return ShareParam()
        case "conditions":
            return ConditionParam()
        case "key":
            return KeyParam(may_be_unknown=parameter.place == "path")
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


def body_value(parameter: Parameter, value: Any) -> Any:
    """A value as a JSON body has it."""
    if parameter.kind in ("pairs", "edits", "number_pairs"):
        return {name: text for each in value for name, text in each.items()}
    if parameter.words and isinstance(value, tuple) and len(cast("tuple[str, ...]", value)) == 1 and value[0] in parameter.words:
        return parameter.words[value[0]]
    return value.isoformat() if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
