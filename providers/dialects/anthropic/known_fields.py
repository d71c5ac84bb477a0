"""Names of fields that Anthropic's API documents: what is none of them came after it, or is a client's own."""

import msgspec

from providers.dialects.anthropic import request_schema

# Fields that are documented and not validated, as any value is passed on: of requests, tools, blocks and thinking.
_PASSED_ON = frozenset(
    {
        *("safeguards", "fallbacks", "toolsets", "betas", "tool_resources", "mcp_server_name", "server_name", "tool_configuration"),
        *("allowed_callers", "defer_loading", "eager_input_streaming", "input_examples", "caller", "block_binding", "diagnostics"),
        *("max_uses", "allowed_domains", "blocked_domains", "user_location", "max_content_tokens", "use_cache", "allowed_tools"),
        *("display_width_px", "display_height_px", "display_number", "enable_zoom", "max_characters", "model", "caching"),
        *("tool_name", "tool_references", "url", "authorization_token", "skills", "edits", "trigger", "keep", "clear_at_least"),
        *("exclude_tools", "clear_tool_inputs", "instructions", "pause_after_compaction", "encrypted_content", "page_age"),
    }
)


def _field_names() -> frozenset[str]:
    structs = [each for each in vars(request_schema).values() if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    return _PASSED_ON.union(*({each.encode_name for each in msgspec.structs.fields(struct)} for struct in structs))


_KNOWN = _field_names()


def is_known_field(path: str) -> bool:
    """Whether the field at the end of a path, such as `messages[0].content[1].citations`, is documented."""
    return path.rpartition(".")[2].partition("[")[0] in _KNOWN
