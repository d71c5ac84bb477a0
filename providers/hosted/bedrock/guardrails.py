"""A guardrail that the operator sets for every response: only Converse is used then, and callers cannot choose another guardrail."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.raw_json import Body

GUARDRAIL_OPTION: Mapping[str, str] = {
    "guardrail": (
        "a guardrail for every response, with Converse as the only API: { id = ..., version = ... }, and trace = true for Bedrock's reasons"
    )
}
_GUARDRAIL_FIELD = "guardrailConfig"
_VERSION_PATTERN = re.compile(r"[1-9][0-9]{0,7}|DRAFT")


class _Guardrail(Struct, forbid_unknown_fields=True):
    id: str
    version: str
    trace: bool = False


def read_guardrail(options: Mapping[str, Any]) -> dict[str, str] | None:
    """The option `guardrail` as Converse's guardrailConfig; None if it is not set. Raises InvalidOption."""
    option = options.get("guardrail")
    if option is None:
        return None
    try:
        guardrail = convert(option, _Guardrail)
    except ValidationError as validation_error:
        raise InvalidOption(f"Option guardrail: {validation_error}.") from None
    if not guardrail.id or not _VERSION_PATTERN.fullmatch(guardrail.version):
        raise InvalidOption("Option guardrail: `id` cannot be empty, and `version` is a number or DRAFT.")
    config = {"guardrailIdentifier": guardrail.id, "guardrailVersion": guardrail.version}
    return {**config, "trace": "enabled"} if guardrail.trace else config


def set_guardrail(provider: Provider, body: Body, guardrail: dict[str, str], may_drop: Callable[[str], bool]) -> list[str]:
    """Sets the guardrail in a Converse body and returns the dropped fields. Raises Unsupported for a guardrail of the caller's."""
    dropped = [_GUARDRAIL_FIELD] if body.has_value(_GUARDRAIL_FIELD) else []
    if dropped and not may_drop(_GUARDRAIL_FIELD):
        raise provider.unsupported_error(_GUARDRAIL_FIELD, "the operator has set a guardrail for every request.")
    body[_GUARDRAIL_FIELD] = guardrail
    return dropped
