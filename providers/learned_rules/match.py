"""Reads the rule that an error names, if the request that was refused breaks it.

Whoever sends a request chooses its text, and hosts repeat text in their errors; a rule, once learned, changes the requests of other teams.
So a rule is only learned from a whole message of a known form (rows.py), about a field that the refused request had, and never about the
fields without which there is no request. What one request alone can say is not shared: see Lesson.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

from providers.canonical.errors import UpstreamError, UpstreamRejected
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.relayed_errors import unwrap_relayed
from providers.drop_policy import DropPolicy
from providers.fields import FIELDS
from providers.learned_rules.adapt import ADAPTATIONS
from providers.learned_rules.conversation import has_function_tools
from providers.learned_rules.fields import decode
from providers.learned_rules.rows import ROWS, ErrorRow
from providers.learned_rules.rule import LearnedRule, Lesson
from providers.structured_output import read_constraint

_STATUSES = (400, 422)
_MAX_MESSAGE_CHARS = 1000
_QUOTED = re.compile(r"[\w.-]+")
# Without these there is no request, or another one. An error about one of them is the caller's to mend.
_CORE_STEPS = frozenset(
    {
        *("model", "messages", "input", "prompt", "contents", "system", "instructions", "stream", "suffix", "image_url", "url"),
        *("role", "content", "text", "type", "name", "id", "tool_use_id", "tool_call_id", "call_id", "arguments", "source", "data"),
        *("function", "custom", "parameters", "input_schema", "schema", "format", "json_schema", "response_format", "signature"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "tool_calls", "encoding_format", "dimensions"),
    }
)
# Fields that clients send by themselves, beside those of FIELDS: a rule about one of them is worth sharing. Any other name was made up
# by one caller, who alone is concerned.
_SHARED_STEPS = frozenset(
    {
        *("temperature", "top_p", "seed", "reasoning_effort", "reasoning", "effort", "summary", "thinking", "context", "mode"),
        *("output_config", "context_management", "speed", "container", "mcp_servers", "cache_control", "citations", "display"),
        *("eager_input_streaming", "defer_loading", "input_examples", "allowed_callers", "strict", "caller", "safeguards", "diagnostics"),
        *("inference_geo", "block_binding", "phase", "prompt_cache_options", "prompt_cache_breakpoint", "truncation", "include"),
        *("web_search_options", "stream_options", "include_obfuscation", "client_metadata", "betas", "detail", "budget_tokens"),
        *("internal_chat_message_metadata_passthrough", "max_tool_calls", "background", "top_logprobs", "verbosity"),
    }
)
# With one of these the engine's message may be the caller's own text: a template can raise an error that says anything.
_CALLERS_CODE = frozenset({"chat_template", "chat_template_kwargs"})


def read_lesson(error: UpstreamError, dialect: str, raw: bytes, betas: bytes = b"") -> Lesson | None:
    """Returns what a request that was refused with this error teaches, or None if it teaches nothing.

    `raw` is the request's body, and `betas` its `anthropic-beta`.
    """
    if not isinstance(error, UpstreamRejected) or error.upstream_status not in _STATUSES or len(error.message) > _MAX_MESSAGE_CHARS:
        return None
    message = unwrap_relayed(error.message)
    for row in ROWS:
        if (row.dialects and dialect not in row.dialects) or (row.params and error.param not in row.params):
            continue
        found = row.pattern.fullmatch(message)
        if found is not None:
            try:
                body = Body.read(raw)
                return None if not _CALLERS_CODE.isdisjoint(body) else _read_row(row, found, error, dialect, body, betas)
            except DECODE_ERRORS:
                return None
    return None


def _read_row(row: ErrorRow, found: re.Match[str], error: UpstreamError, dialect: str, body: Body, betas: bytes) -> Lesson | None:
    groups = found.groupdict()
    values = row.values or tuple(_QUOTED.findall(groups.get("values") or ""))
    field = row.field or groups.get("field") or (error.param if row.params and error.param else "")
    match row.kind:
        case "refused_beta":
            return _read_betas(values, dialect, body, betas)
        case "refused_field":
            path = _path_in(body, field)
            if path is None:
                return None
            rule, is_shared = LearnedRule(row.kind, dialect, path), _is_known(path)
        case "refused_thinking":
            takes_between_tools = field == "disabled" and "between_tools" in found[0]
            rule, is_shared = LearnedRule(row.kind, dialect, field, ("between_tools",) if takes_between_tools else ()), True
        case "no_tools":
            return Lesson((LearnedRule(row.kind, dialect),)) if has_function_tools(body) else None
        case "no_schemas":
            constraint = read_constraint(dialect, body)
            return Lesson((LearnedRule(row.kind, dialect),)) if constraint is not None and constraint.demands_schema else None
        case _:
            rule, is_shared = LearnedRule(row.kind, dialect, field, tuple(value for value in values if value not in ("and", "or"))), True
    return Lesson((rule,), is_shared) if _explains(rule, body) else None


def _explains(rule: LearnedRule, body: Body) -> bool:
    """Whether the body that was refused breaks the rule."""
    return ADAPTATIONS[rule.kind](Body(body), rule, DropPolicy(lambda _: True, {}, "", max_paths=0))


def _read_betas(values: Sequence[str], dialect: str, body: Body, betas: bytes) -> Lesson | None:
    """Returns a lesson about the betas that an error names or, if it names none, about all that were sent.

    The latter holds for this request alone unless a single beta was sent: one beta among others does not condemn those.
    """
    in_body: Any = body.value("anthropic_beta") if "anthropic_beta" in body else None
    sent = {name.decode("ascii", "replace") for part in betas.split(b",") if (name := part.strip())}
    sent |= {str(name) for name in cast("list[Any]", in_body)} if isinstance(in_body, list) else set()
    refused = sorted(sent.intersection(values) if values else sent)
    rules = tuple(LearnedRule("refused_beta", dialect, name) for name in refused)
    return Lesson(rules, is_shared=bool(values) or len(rules) == 1) if rules else None


def _path_in(body: Body, named: str) -> str | None:
    """The path of a field in the body, `[]` for each index; None: it is not there, or no field to go without.

    Anthropic's paths name the kind of a part, too (tools.0.custom.strict): a step that is not in the body is passed over. A key with a dot
    in it could stand for another path, so that nothing is learned beside one.
    """
    steps, value, path = named.split("."), cast("Any", {key: None for key in body}), ""
    if steps[-1] in _CORE_STEPS or not steps[0] or steps[0].isdigit():
        return None
    value = {key: decode(body[key]) if key == steps[0] else None for key in body}
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if not step.isdigit():
                if is_last:
                    return None
                continue
            if int(step) >= len(items):
                return None
            value, path = items[int(step)], path + "[]"
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            if any("." in key for key in fields):
                return None
            if step in fields:
                value, path = fields[step], f"{path}.{step}" if path else step
            elif is_last or not path:
                return None
        else:
            return None
    return None if path.endswith("[]") else path


def _is_known(path: str) -> bool:
    name = path.rpartition(".")[2]
    return name in _SHARED_STEPS or (path == name and name in FIELDS)
