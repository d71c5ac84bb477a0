"""Fields of requests in `litellm_params`, which LiteLLM adds to requests that do not have them."""

from app.imports.source_table import SourceTable

_FIELDS = (
    *("temperature", "top_p", "top_k", "min_p", "n", "seed", "stop", "max_tokens", "max_completion_tokens", "presence_penalty"),
    *("frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "user", "response_format", "tools"),
    *("tool_choice", "parallel_tool_calls", "functions", "function_call", "reasoning_effort", "thinking", "verbosity", "modalities"),
    *("audio", "prediction", "web_search_options", "service_tier", "metadata", "extra_body", "safety_settings", "dimensions"),
    *("encoding_format", "input_type", "stream", "stream_options", "store", "truncate", "num_ctx", "keep_alive"),
    "cache_control_injection_points",
)
_PROMPT_FORMAT = ("initial_prompt_value", "roles", "final_prompt_value", "bos_token", "eos_token", "prompt_id", "prompt_variables")
_ADVICE = "A model adds no fields to requests: callers send it, or a function's variant has it in its `params` (docs/functions.md)."


def report_request_fields(params: SourceTable) -> None:
    for key in _FIELDS:
        params.leave_out(key, _ADVICE)
    for key in _PROMPT_FORMAT:
        params.leave_out(key, "The engine applies the model's chat template; a function's variant has prompts of its own.")
