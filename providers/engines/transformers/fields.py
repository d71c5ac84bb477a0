"""Fields of `transformers serve`: those that it acts on, those that move into generation_config, and neutral values of the rest."""

from collections.abc import Mapping

from providers import structured_output
from providers.fields import HINT_FIELDS, NeutralValues, neutral_values, only_null

# All fields that it acts on, under their own names. Any other is moved, left out, dropped or refused.
CHAT_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "logit_bias"),
        *("tools", "chat_template_kwargs", "generation_config"),
    }
)
COMPLETIONS_FIELDS = frozenset(
    {"model", "prompt", "stream", "max_tokens", "temperature", "top_p", "seed", "stop", "generation_config", "suffix"}
)

# Moved into generation_config, by their names there.
GENERATION_CONFIG_NAMES: Mapping[str, str] = {
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "min_tokens": "min_new_tokens",
    "min_new_tokens": "min_new_tokens",
}
SAMPLING_FIELDS = ("temperature", "top_p", "top_k", "min_p", "typical_p")

UNSUPPORTED_HINT_FIELDS = HINT_FIELDS | {"priority", "cache_salt", "session_id"}

# Adapted by the gateway, by the constraint plan, or in the adapter.
HANDLED_ELSEWHERE = structured_output.CONSTRAINT_FIELDS | {
    *("response_format", "stream_options", "episode_id", "tensorzero::episode_id", "tensorzero::tags"),
}

NEUTRAL_VALUES: NeutralValues = {
    **only_null(structured_output.CONSTRAINT_FIELDS),
    **only_null(("stream_options", "max_tokens", "max_completion_tokens", "seed", "temperature", "top_p", "chat_template_kwargs")),
    **neutral_values(
        (
            *("n", "best_of", "echo", "suffix", "stop", "logprobs", "top_logprobs", "presence_penalty", "frequency_penalty"),
            *("logit_bias", "response_format", "modalities", "audio", "verbosity", "reasoning_effort", "web_search_options"),
            *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
            *("top_k", "min_p", "top_a", "typical_p", "tfs_z", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"),
            *(
                "min_tokens",
                "min_new_tokens",
                "do_preprocess",
                "ignore_eos",
                "stop_token_ids",
                "bad_words",
                "allowed_token_ids",
                "use_beam_search",
            ),
            *("include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens"),
            *("add_generation_prompt", "continue_final_message", "separate_reasoning", "session_id", "return_token_ids"),
        )
    ),
    "prompt_logprobs": (0,),
    "include_reasoning": (True,),
    "generation_config": ("",),
}

DROP_REASONS: Mapping[str, str] = {
    "tool_choice": "only its model decides whether it calls a tool.",
    "logprobs": "it reports none.",
    "n": "it generates one choice.",
    "frequency_penalty": "it takes it for a repetition penalty, which is something else.",
}
