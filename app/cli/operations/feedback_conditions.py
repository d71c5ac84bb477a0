"""Conditions on feedback as people type them: helpful=true, score>=0.8, score<=0.2, or comment."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.raw_json import DECODE_ERRORS

_BOUNDS = {"=": "value", ">=": "min", "<=": "max"}
_CONDITION = re.compile("([^<>=]+)(?:(>=|<=|=)(.+))?")


def parse_condition(text: str) -> Mapping[str, Any]:
    """A condition as the admin API has it. Raises ValueError."""
    found, operand = _CONDITION.fullmatch(text), None
    if found and found[2] is None:
        return {"metric": found[1].strip()}
    with contextlib.suppress(*DECODE_ERRORS):
        operand = msgspec.json.decode(found[3].strip()) if found else None
    if found is None or not (isinstance(operand, bool) if found[2] == "=" else type(operand) in (int, float)):
        raise ValueError(f"{text!r} is no condition: helpful=true, score>=0.8, score<=0.2, or comment")
    return {"metric": found[1].strip(), _BOUNDS[found[2]]: operand}
