"""Fields that llama-cpp-python's server lacks or ignores, and their neutral values. It ignores unknown fields without an error."""

from collections.abc import Mapping

from providers.adapters.messages import UNREAD_PARTS
from providers.engines.llamacpp.fields import SHARED_UNKNOWN_FIELDS
from providers.fields import NeutralValues, neutral_values, only_null

UNKNOWN_FIELDS: NeutralValues = {
    **SHARED_UNKNOWN_FIELDS,
    **neutral_values(
        (
            *("ignore_eos", "typical_p", "n", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"),
            *("reasoning_effort", "enable_thinking"),
        )
    ),
}
NEUTRAL_VALUES: NeutralValues = {
    **UNKNOWN_FIELDS,
    **neutral_values(("logprobs", "parallel_tool_calls", "tools", "stop", "logit_bias", "session_id")),
    # Typed there, so that null is a 500.
    **only_null(
        (
            *("top_logprobs", "frequency_penalty", "presence_penalty", "repetition_penalty", "temperature", "top_p", "top_k"),
            *("min_p", "min_tokens", "mirostat_mode", "mirostat_tau", "mirostat_eta"),
        )
    ),
}

IGNORES_IMAGES = "without a `clip_model_path` it ignores images (option `vision`)."
UNSUPPORTED_PARTS: Mapping[bytes, str] = {**UNREAD_PARTS, b'"input_audio"': "it reads no audio."}
UNSUPPORTED_PARTS_WITHOUT_VISION: Mapping[bytes, str] = {
    **UNSUPPORTED_PARTS,
    b'"image_url"': IGNORES_IMAGES,
}
