"""Finish reasons of engines beyond OpenAI's own, replaced by OpenAI's: official clients may validate them."""

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.finish_reasons import OPENAI_REASONS, openai_reason
from providers.canonical.raw_json import NULL

# What needs no change in OpenAI's dialects: its own finish reasons, and none.
UNCHANGED_FINISH_REASONS = frozenset({*OPENAI_REASONS, None})

_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def normalize_finish_reasons(choices: bytes, empty_as: Raw = NULL) -> bytes:
    """The choices with OpenAI's finish reasons and with indexes, which official clients validate or need. An unknown reason is a stop.

    `empty_as` takes the place of none and of "", which some engines send in every chunk that finishes nothing. Raises the UpstreamError of
    a reason that means that the response failed. Call it only if a choice has a reason that is not in UNCHANGED_FINISH_REASONS, or no
    index: searching every chunk costs too much.
    """
    decoded = _decode_choices(choices)
    for position, choice in enumerate(decoded):
        if choice.get("index", NULL) == NULL:
            choice["index"] = as_raw(position)
        reason = msgspec.json.decode(choice.get("finish_reason", NULL))
        if not reason:
            choice["finish_reason"] = empty_as
        elif isinstance(reason, str) and reason not in UNCHANGED_FINISH_REASONS:
            choice["finish_reason"] = as_raw(openai_reason(reason, choice.get("error", NULL)))
    return msgspec.json.encode(decoded)
