"""Idle: what of an ask asks for nothing, so that a host which has no word for it need not have one."""

from collections.abc import Container, Mapping
from typing import Any

import msgspec

from providers.canonical.chat import ENGINE_FIELDS, Extra
from providers.dialect import DropPolicy

# Words of engines that ask for nothing with these values: any host does so anyway.
NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("min_p", "top_a", "no_repeat_ngram_size", "min_tokens", "priority"), (0,)),
    **dict.fromkeys(("typical_p", "tfs_z", "repetition_penalty", "length_penalty", "best_of"), (1,)),
    **dict.fromkeys(("ignore_eos", "use_beam_search", "include_stop_str_in_output", "continue_final_message", "echo"), (False,)),
    **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens", "add_generation_prompt", "separate_reasoning"), (True,)),
    **dict.fromkeys(("chat_template_kwargs", "mm_processor_kwargs"), ({},)),
    "modalities": (["text"],),
}
# What only makes an answer come sooner, or another way.
_HINT_FIELDS = frozenset({"prediction", "prompt_cache_retention", "guided_decoding_backend"})


def drop_extra_fields(extra: Extra, drop_policy: DropPolicy, why: str, written: Container[str] = ()) -> None:
    """All that a host has no field for, but what was `said` to it: hints and what asks for nothing go, all else is refused."""
    for key, value in extra.items():
        if key in written:
            continue
        if key in _HINT_FIELDS:
            drop_policy.drop_hint(key)
        elif key in NEUTRAL_VALUES and msgspec.json.decode(value) in NEUTRAL_VALUES[key]:
            continue
        elif key not in ENGINE_FIELDS:
            drop_policy.drop_extra_field(key, value, why)
        elif msgspec.json.decode(value) not in (None, [], ""):
            drop_policy.drop_or_refuse(key, why)
