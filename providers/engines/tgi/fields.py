"""Fields that TGI lacks or ignores, and their neutral values."""

from collections.abc import Mapping

from providers.fields import HINT_FIELDS, RARE_FIELDS, RARE_NEUTRAL_VALUES, NeutralValues, neutral_values, restricted_fields

_NEUTRAL_FIELDS = (
    *("n", "logit_bias", "top_k", "min_p", "min_tokens", "min_new_tokens", "ignore_eos", "stop_token_ids"),
    "include_stop_str_in_output",
    *("skip_special_tokens", "spaces_between_special_tokens", "priority", "separate_reasoning", "continue_final_message"),
    *("chat_template_kwargs", "presence_penalty", "session_id"),
)
UNSUPPORTED_FIELDS = (RARE_FIELDS - {"suffix"}) | {
    *_NEUTRAL_FIELDS,
    *("cache_salt", "lora_path", "enable_thinking", "mm_processor_kwargs", "reasoning_effort"),
}
UNSUPPORTED_IN_COMPLETIONS = frozenset({"logprobs", "echo", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs"})
UNSUPPORTED_HINT_FIELDS = HINT_FIELDS

COMPLETIONS_NEUTRAL_VALUES: NeutralValues = {
    **RARE_NEUTRAL_VALUES,
    # Its `presence_penalty` is a repetition penalty minus 2, so OpenAI's is unsupported.
    **neutral_values((*_NEUTRAL_FIELDS, "repetition_penalty", "stop", "tools", "echo", "response_format")),
    "top_p": (1,),  # it accepts values between 0 and 1, both excluded
    "parallel_tool_calls": (True, False),  # it makes one call
}
CHAT_NEUTRAL_VALUES: NeutralValues = {**COMPLETIONS_NEUTRAL_VALUES, **neutral_values(("logprobs",))}

UNSUPPORTED_PARTS: Mapping[bytes, str] = dict.fromkeys(
    (b'"file"', b'"input_audio"', b'"refusal"', b'"video_url"', b'"audio_url"'), "it reads only texts and images."
)

# Not open to callers.
RESTRICTED_FIELDS = restricted_fields(("adapter_id",))
