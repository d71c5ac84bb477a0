"""Values of `include` that the gateway reads or adds."""

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS_INCLUDE = "message.output_text.logprobs"
