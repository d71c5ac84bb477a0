"""Tools, adapted to vLLM: functions only, at least one, and a choice among all of them."""

from typing import Any

from msgspec import Raw

from providers.adapters.tools import choice_kind, drop_unsupported_tools, send_allowed_tools_only
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.structured_output import Constraint


def adapt_tools(
    body: Body,
    dialect: str,
    drop_policy: DropPolicy,
    constraint: Constraint | None,
    *,
    strict_unsupported_reason: str | None,
    keeps_host_tools: bool,
) -> None:
    """Adapts tools and the choice among them. Raises Unsupported.

    `strict_unsupported_reason` says why the calls of a free choice are not held to the schemas of strict tools; None means that they are.
    With `keeps_host_tools`, tools that the host runs are sent.
    """
    if "tools" not in body and "tool_choice" not in body:
        return
    send_allowed_tools_only(body)
    if dialect == "openai_chat" and _is_empty_list(body.get("tools")):
        del body["tools"]  # no tools to OpenAI; vLLM answers 400 (observed on 0.32)
        if body.value("tool_choice") in ("auto", "none"):
            del body["tool_choice"]  # meaningless without tools; vLLM answers 400
    if not body.has_value("tools"):
        return
    if not keeps_host_tools:
        drop_unsupported_tools(body, dialect, drop_policy)  # its Responses ignore them without an error (observed on 0.32)
    if strict_unsupported_reason is not None and constraint is not None and is_free_choice(body.value("tool_choice")):
        for path, _ in constraint.strict_tools:
            drop_policy.drop_path_or_refuse(path.rpartition(".")[0] + ".strict", strict_unsupported_reason)


def tools_exclude_output(body: Body, constraint: Constraint, *, allows_call_or_output: bool) -> bool:
    """Whether vLLM cannot honour both the tools and the constraint on the text.

    `allows_call_or_output` says that, where one tool is strict and the choice is free, the engine makes a grammar of both, by which a
    response is a call or obeys the constraint.
    """
    if constraint.output is None or not body.value("tools"):
        return False
    choice = body.value("tool_choice")
    return choice_kind(choice) != "none" and not (allows_call_or_output and constraint.strict_tools and is_free_choice(choice))


def drop_tools_or_constraint(body: Body, field: str, drop_policy: DropPolicy) -> bool:
    """Drops the tools, or reports `field`, the constraint's, as dropped; returns whether the constraint is. Raises Unsupported.

    With a free choice vLLM makes no calls (vllm-project/vllm#39929) or, from 0.22 to 0.29 and beside a strict tool, ignores the
    constraint; where a call is demanded it ignores the constraint. Observed on 0.32; parser/abstract_parser.py of older ones, read 2026-11.
    """
    if not drop_policy.may_drop("tools") and drop_policy.may_drop(field):
        drop_policy.report_dropped(field)
        return True
    reason = f"beside tools of which none is `strict` (and before 0.32 beside any) it does not both obey `{field}` and make calls."
    if not is_free_choice(body.value("tool_choice")):
        reason = f"where a call is demanded it ignores `{field}`."
    drop_policy.drop_path_or_refuse("tools", f"{reason} (Or send `x-narthex-drop: {field}` to go without that.)")
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(name, None)
    return False


def is_free_choice(choice: Any) -> bool:
    """Whether the model itself decides if it calls a tool."""
    return choice_kind(choice) in (None, "auto")


def _is_empty_list(value: Any) -> bool:
    if not isinstance(value, Raw | list):
        return False
    raw = bytes(as_raw(value))  # pyright: ignore[reportUnknownArgumentType]
    return raw[:1] == b"[" and not raw[1:-1].strip()
