"""A guardrail that an operator sets for all answers: all goes by Converse then, and callers may not choose another."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert

from providers.provider import BadOption, Provider
from providers.wire import Body

GUARDRAIL_OPTION: Mapping[str, str] = {
    "guardrail": (
        "a guardrail for every answer, all of which come by Converse then: { id = ..., version = ... }, and trace = true to have Bedrock"
        " tell its reasons"
    )
}
_FIELD = "guardrailConfig"
_VERSION = re.compile(r"[1-9][0-9]{0,7}|DRAFT")


class _Guardrail(Struct, forbid_unknown_fields=True):
    id: str
    version: str
    trace: bool = False


def read_guardrail(configured_as: str, options: Mapping[str, Any]) -> dict[str, str] | None:
    """As Converse takes it. Raises BadOption."""
    said = options.get("guardrail")
    if said is None:
        return None
    try:
        told = convert(said, _Guardrail)
    except ValidationError as fault:
        raise BadOption(f"Option guardrail of provider {configured_as!r}: {fault}.") from None
    if not told.id or not _VERSION.fullmatch(told.version):
        raise BadOption(f"Option guardrail of provider {configured_as!r}: `id` names one, and `version` is a number or DRAFT.")
    config = {"guardrailIdentifier": told.id, "guardrailVersion": told.version}
    return {**config, "trace": "enabled"} if told.trace else config


def put_guardrail(provider: Provider, body: Body, guardrail: dict[str, str], may_drop: Callable[[str], bool]) -> list[str]:
    """What of the caller's had to go for it. Raises Unsupported."""
    dropped = [_FIELD] if body.said(_FIELD) else []
    if dropped and not may_drop(_FIELD):
        raise provider.unsupported(_FIELD, "its operator has set a guardrail for all.")
    body[_FIELD] = guardrail
    return dropped
