"""Numbers and strings in each other's place: what an engine sent, with the types that all APIs promise for these fields.

Only for responses that do not decode otherwise: nobody else pays for it.
"""

from typing import Any, cast

import msgspec

from providers.canonical.raw_json import DECODE_ERRORS, repair_unicode

_NUMBERS = frozenset(
    {
        *("index", "created", "created_at", "output_index", "content_index", "summary_index", "sequence_number", "contentBlockIndex"),
        *("eval_count", "prompt_eval_count", "generation_token_count", "prompt_token_count", "generated_tokens"),
    }
)
_TEXTS = frozenset({"id", "call_id", "item_id", "tool_call_id", "toolUseId", "responseId", "model", "name"})
# Here is what a model or a caller wrote, and it stays as it is.
_FOREIGN = frozenset({"arguments", "args", "input", "partialArgs", "tools", "metadata", "json", "parameters", "instructions", "prompt"})


def with_expected_types(raw: bytes) -> bytes:
    """The same object where nothing is to change, or where it is no JSON. Broken Unicode is repaired, too."""
    repaired = repair_unicode(raw)
    try:
        decoded = msgspec.json.decode(repaired)
    except DECODE_ERRORS:
        return raw
    changes: list[str] = []
    corrected = _correct(decoded, changes)
    return msgspec.json.encode(corrected) if changes else repaired if repaired != raw else raw


def _correct(value: Any, changes: list[str]) -> Any:
    if isinstance(value, list):
        return [_correct(each, changes) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    corrected: dict[str, Any] = {}
    for key, each in cast("dict[str, Any]", value).items():
        # `input` and the like may also be a count of tokens, in usage.
        if key in _FOREIGN and not isinstance(each, str | int | float):
            corrected[key] = each
            continue
        new = _correct(each, changes)
        if key in _NUMBERS or key.lower().endswith(("tokens", "tokencount")):
            new = _whole_number(new)
        elif key in _TEXTS and isinstance(new, int | float) and not isinstance(new, bool):
            new = str(new)
        if new is not each and type(new) is not type(each):
            changes.append(key)
        corrected[key] = new
    return corrected


def _whole_number(value: Any) -> Any:
    """A number in a string, or with a fraction, as an integer; anything else as it is. What cannot be a number counts as not reported."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return int(value) if isinstance(value, float) and abs(value) < 2**53 else value
