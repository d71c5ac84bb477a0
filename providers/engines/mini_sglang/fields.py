"""Fields that mini-sglang has, those that it lacks or ignores, and their neutral values."""

from providers.fields import HINT_FIELDS, RARE_FIELDS, RARE_NEUTRAL_VALUES, NeutralValues, neutral_values, only_null

# All fields that its API documents, and `stream_options`, which the gateway answers. It ignores every other one without an error.
KNOWN_FIELDS = frozenset(
    {
        *("model", "messages", "prompt", "max_tokens", "temperature", "top_k", "top_p", "n", "stream", "stop"),
        *("presence_penalty", "frequency_penalty", "ignore_eos", "stream_options"),
    }
)
# Its API accepts the two penalties and documents that they have no effect: callers of mini-sglang may send them.
_ACCEPTED_WITHOUT_EFFECT = frozenset({"presence_penalty", "frequency_penalty"})
_NEUTRAL_FIELDS = (
    *("n", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "min_tokens", "logprobs"),
    *("top_logprobs", "logit_bias", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
    *("spaces_between_special_tokens", "priority", "separate_reasoning", "continue_final_message", "chat_template_kwargs"),
    *("tools", "min_new_tokens", "session_id"),
)
UNSUPPORTED_FIELDS = RARE_FIELDS | {
    *_NEUTRAL_FIELDS,
    *("seed", "cache_salt", "lora_path", "enable_thinking", "mm_processor_kwargs", "reasoning_effort", "tool_choice"),
}
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS | _ACCEPTED_WITHOUT_EFFECT

NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    # Typed there, so that null is a 422.
    **only_null(("max_tokens", "temperature", "top_k", "top_p", "ignore_eos")),
    **neutral_values((*_NEUTRAL_FIELDS, "response_format")),
    # It makes no calls.
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True, False),
}
