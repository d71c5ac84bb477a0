"""Fields that SGLang lacks or ignores, and their neutral values. It reads bodies as pydantic does, and ignores unknown fields."""

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

# `mm_processor_kwargs` is read for one family of models only (option `accepts`).
UNSUPPORTED_FIELDS = RARE_FIELDS | {"mm_processor_kwargs", "spaces_between_special_tokens"}
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS
UNSUPPORTED_IN_COMPLETIONS = CHAT_ONLY_FIELDS | {"continue_final_message", "separate_reasoning", "stream_reasoning"}

# Typed there, so that null is a 400.
_NOT_NULLABLE = (
    *("frequency_penalty", "presence_penalty", "n", "logprobs", "echo", "parallel_tool_calls", "continue_final_message", "ignore_eos"),
    *("min_tokens", "min_new_tokens", "skip_special_tokens", "no_stop_trim", "include_stop_str_in_output"),
    *("separate_reasoning", "stream_reasoning"),
)
_NOT_NULLABLE_IN_COMPLETIONS = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")

CHAT_NEUTRAL_VALUES: NeutralValues = {
    **only_null(_NOT_NULLABLE),
    **RARE_NEUTRAL_VALUES,
    **neutral_values(("spaces_between_special_tokens", "enable_thinking", "session_id")),
}
COMPLETIONS_NEUTRAL_VALUES: NeutralValues = {**CHAT_NEUTRAL_VALUES, **only_null(_NOT_NULLABLE_IN_COMPLETIONS)}

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(
    (
        *("lora_path", "session_params", "custom_logit_processor", "bootstrap_host", "bootstrap_port", "bootstrap_room"),
        *("bootstrap_pair_key", "decode_tp_size", "data_parallel_rank", "routed_dp_rank", "disagg_prefill_dp_rank"),
        *("priority", "cache_salt", "extra_key"),
    )
)
