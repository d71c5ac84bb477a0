"""Fields that LMDeploy lacks or ignores, and their neutral values. It reads bodies as pydantic does, and ignores unknown fields."""

from collections.abc import Mapping

from providers.adapters.messages import UNREAD_PARTS
from providers.fields import (
    CHAT_ONLY_FIELDS,
    HINT_FIELDS,
    RARE_FIELDS,
    RARE_NEUTRAL_VALUES,
    NeutralValues,
    neutral_values,
    only_null,
    restricted_fields,
)

UNSUPPORTED_FIELDS = (RARE_FIELDS - {"return_token_ids"}) | {
    *("presence_penalty", "frequency_penalty", "stop_token_ids", "separate_reasoning", "continue_final_message"),
    *("lora_path", "echo"),
}
# Its API accepts these and documents that they have no effect (0.12 to 0.18): callers of LMDeploy may send them.
_ACCEPTED_WITHOUT_EFFECT = frozenset({"presence_penalty", "frequency_penalty"})
# The same for its completions.
ACCEPTED_IN_COMPLETIONS = frozenset({"echo", "suffix", "logprobs"})
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS | _ACCEPTED_WITHOUT_EFFECT | {"priority", "cache_salt"}
UNSUPPORTED_IN_COMPLETIONS = CHAT_ONLY_FIELDS | {
    *("mm_processor_kwargs", "media_io_kwargs", "min_tokens", "min_new_tokens", "include_stop_str_in_output", "logit_bias"),
}

NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    **neutral_values(
        (
            *("n", "echo", "presence_penalty", "frequency_penalty", "logit_bias", "parallel_tool_calls", "continue_final_message"),
            *("separate_reasoning", "stop_token_ids", "min_tokens", "min_new_tokens"),
        )
    ),
    **only_null(("tool_choice", "min_p", "logprobs")),
}

UNSUPPORTED_PARTS: Mapping[bytes, str] = {**UNREAD_PARTS, b'"input_audio"': "it has no parts of that type."}
REASONING_EFFORTS = ("low", "medium", "high")

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(("adapter_name", "migration_request", "with_cache", "preserve_cache", "logits_processors"))
