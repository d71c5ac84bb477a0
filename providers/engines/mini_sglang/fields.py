"""Fields that mini-sglang lacks or ignores, and their neutral values."""

from providers.fields import HINT_FIELDS, RARE_FIELDS, RARE_NEUTRAL_VALUES, NeutralValues, neutral_values, only_null

# `stop` and the penalties are fields of its request, and have no effect.
_NEUTRAL_FIELDS = (
    *("n", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "min_tokens", "logprobs"),
    *("top_logprobs", "logit_bias", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
    *("spaces_between_special_tokens", "priority", "separate_reasoning", "continue_final_message", "chat_template_kwargs"),
    *("tools", "min_new_tokens"),
)
UNSUPPORTED_FIELDS = RARE_FIELDS | {
    *_NEUTRAL_FIELDS,
    *("seed", "cache_salt", "lora_path", "session_id", "enable_thinking", "mm_processor_kwargs", "reasoning_effort", "tool_choice"),
}
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS

NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    # Typed there, so that null is a 422.
    **only_null(("max_tokens", "temperature", "top_k", "top_p", "ignore_eos")),
    **neutral_values((*_NEUTRAL_FIELDS, "response_format")),
    # It makes no calls.
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True, False),
}
