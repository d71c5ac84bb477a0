"""Complete responses of POST /inference from canonical ones.

Source: docs/gateway/api-reference/inference.mdx of tensorzero/tensorzero at 7a6159a, read 2026-11.
"""

import msgspec

from providers.canonical.chat import ChatResponse, Choice, ToolCall, Usage
from providers.dialect import ResponseMeta
from providers.dialects.tensorzero_inference.content_blocks import write_blocks, write_json_output
from providers.dialects.tensorzero_inference.finish_reasons import write_finish_reason
from providers.dialects.tensorzero_inference.response_head import is_json_response, response_head
from providers.dialects.tensorzero_inference.usage import write_usage


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    """The first choice: there are no others."""
    choice = response.choices[0] if response.choices else Choice((), None)
    body = response_head(meta)
    if is_json_response(meta.request_body):
        body["output"] = write_json_output(choice.parts)
    else:
        body["content"] = list(write_blocks(choice.parts))
    body["usage"] = write_usage(response.usage or Usage())
    has_calls = any(isinstance(part, ToolCall) for part in choice.parts)
    reason = write_finish_reason(choice.finish_reason, choice.stop_sequence, ended_with_calls=has_calls)
    if reason is not None:
        body["finish_reason"] = reason
    return msgspec.json.encode(body)
