"""Fields that a host says its model does not have, or not with this value: left out, or said with a value that it has.

A path names a field at any depth: `reasoning.effort`, `tools[].strict`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import NULL, Body
from providers.drop_policy import DropPolicy
from providers.fields import FIELDS, HINT_FIELDS
from providers.learned_rules.rule import LearnedRule

_WHY_REFUSED = "its host refuses the field for this model."
# Where they are defaults of every API; FIELDS has the others.
_DEFAULTS: dict[str, tuple[Any, ...]] = {"temperature": (1,), "top_p": (1,)}
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_EFFORT_STEPS = ("effort", "reasoning_effort")


def leave_out_field(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Leaves the field out wherever it is. Raises Unsupported where that is not allowed. Returns whether it was there."""
    if "." not in rule.field:
        return _leave_out_top_level(body, rule.field, drop_policy)
    head = rule.field.partition(".")[0].removesuffix("[]")
    if not body.has_value(head):
        return False
    decoded: Any = decode(body[head])
    found = list(_find(decoded, _steps(rule.field), head))
    if not found:
        return False
    name = rule.field.rpartition(".")[2]
    for holder, path in found:
        drop_policy.drop_extra_field(path, Raw(msgspec.json.encode(holder[name])), _WHY_REFUSED)
        del holder[name]
    if decoded:
        body[head] = decoded
    else:
        del body[head]
    return True


def _leave_out_top_level(body: Body, field: str, drop_policy: DropPolicy) -> bool:
    if field not in body or drop_policy.accepts(field):
        return False
    value = body.value(field)
    neutral = _DEFAULTS.get(field) or (FIELDS[field].neutral_values if field in FIELDS else ())
    if value is None or value in neutral:
        del body[field]
    elif field in HINT_FIELDS:
        drop_policy.drop_hint(field)
    elif field in FIELDS or field in _DEFAULTS:
        drop_policy.drop_missing(field, _WHY_REFUSED)
    else:
        drop_policy.drop_extra_field(field, Raw(msgspec.json.encode(value)), _WHY_REFUSED)
        del body[field]
    return True


def rename_field(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """The same value under the name that the host wants."""
    new_name = rule.values[0]
    if rule.field not in body:
        return False
    value = body.pop(rule.field)
    if value != NULL and not body.has_value(new_name):
        body[new_name] = value
    return True


def fit_value(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """A value that the host accepts in place of the caller's: of efforts the next lower one, else the lowest; of others, its default."""
    head, _, name = rule.field.rpartition(".")
    if head and not body.has_value(head):
        return False
    holder: Any = decode(body[head]) if head else body
    if not isinstance(holder, dict):
        return False
    fields = cast("dict[str, Any]", holder)
    value = body.value(name) if not head else fields.get(name)
    if not isinstance(value, str) or value in rule.values:
        return False
    fitting = _nearest_effort(value, rule.values) if name in _EFFORT_STEPS else None
    if fitting is None:
        del fields[name]
    else:
        fields[name] = fitting
    drop_policy.report_dropped(rule.field)
    if head and fields:
        body[head] = fields
    elif head:
        del body[head]
    return True


def use_one_sampling_field(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Keeps only the temperature where `top_p` is set, too, or only `top_p` if the temperature is the default."""
    if not body.has_value("temperature") or not body.has_value("top_p"):
        return False
    return _leave_out_top_level(body, "temperature" if body.value("temperature") == 1 else "top_p", drop_policy)


def _nearest_effort(effort: str, accepted: Sequence[str]) -> str | None:
    """Returns the next lower effort that is accepted, or else the lowest one.

    None means that no known effort but `none` is accepted, or that `effort` is not a known one.
    """
    known = sorted((each for each in accepted if each in _EFFORTS), key=_EFFORTS.index)
    if not known or effort not in _EFFORTS:
        return None
    lower = [each for each in known if _EFFORTS.index(each) < _EFFORTS.index(effort) and each != "none"]
    return lower[-1] if lower else next((each for each in known if each != "none"), None)


def decode(value: Any) -> Any:
    """The value as Python objects all through; a dialect may have left the caller's bytes within its own."""
    return msgspec.json.decode(value if isinstance(value, Raw) else msgspec.json.encode(value))


def _steps(path: str) -> list[str]:
    """Splits `tools[].function.strict` into ["[]", "function", "strict"]: the head is what the steps begin in."""
    head, _, rest = path.partition(".")
    steps = ["[]"] if head.endswith("[]") else []
    for step in rest.split("."):
        steps += [step.removesuffix("[]"), "[]"] if step.endswith("[]") else [step]
    return steps


def _find(value: Any, steps: Sequence[str], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects that hold what the last step names, with its path."""
    step = steps[0]
    if step == "[]":
        for index, item in enumerate(cast("list[Any]", value) if isinstance(value, list) else ()):
            yield from _find(item, steps[1:], f"{path}[{index}]")
    elif isinstance(value, dict) and step in value:
        if len(steps) == 1:
            yield cast("dict[str, Any]", value), f"{path}.{step}"
        else:
            yield from _find(value[step], steps[1:], f"{path}.{step}")
