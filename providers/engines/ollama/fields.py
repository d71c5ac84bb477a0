"""Fields that Ollama's /v1/completions lacks, and their neutral values. Its own chat takes none of OpenAI's fields."""

from providers.fields import HINT_FIELDS, RARE_FIELDS, RARE_NEUTRAL_VALUES, NeutralValues, neutral_values

_NEUTRAL_FIELDS = (
    *("n", "echo", "logit_bias", "top_k", "min_p", "repetition_penalty", "min_tokens", "min_new_tokens", "ignore_eos"),
    "stop_token_ids",
    *("include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens", "priority", "separate_reasoning"),
    *("continue_final_message", "tools", "session_id"),
)
UNSUPPORTED_FIELDS = (RARE_FIELDS - {"suffix"}) | {
    *_NEUTRAL_FIELDS,
    *("cache_salt", "lora_path", "enable_thinking", "chat_template_kwargs", "mm_processor_kwargs"),
    *("tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort"),
}
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS

NEUTRAL_VALUES: NeutralValues = {
    **{field: values for field, values in RARE_NEUTRAL_VALUES.items() if field != "suffix"},
    **neutral_values(_NEUTRAL_FIELDS),
    "parallel_tool_calls": (True, False),  # a completion makes no calls
}
