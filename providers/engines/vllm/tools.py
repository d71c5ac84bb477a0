"""Tools as vLLM takes them: functions alone, at least one, and a choice among all of them."""

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from providers.adapters.tools import choice_kind, drop_unsupported_tools, send_allowed_tools_only
from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.structured_output import Constraint


def adapt_tools(
    body: Body,
    dialect: str,
    unsupported_fields: UnsupportedFields,
    constraint: Constraint | None,
    *,
    strict_unsupported_reason: str | None,
    keeps_host_tools: bool,
) -> None:
    """`strict`: why a free choice is not held to the schemas of strict tools; None: it is. `runs_tools`: those of the host are let through.

    Raises Unsupported.
    """
    if "tools" not in body and "tool_choice" not in body:
        return
    send_allowed_tools_only(body)
    if dialect == "openai_chat" and _is_empty_list(body.get("tools")):
        del body["tools"]  # an empty list means none to OpenAI; vLLM answers it with 400 (seen on 0.32)
        if body.value("tool_choice") in ("auto", "none"):
            del body["tool_choice"]  # says nothing without tools; vLLM answers it with 400 there
    if not body.has_value("tools"):
        return
    if not keeps_host_tools:
        drop_unsupported_tools(body, dialect, unsupported_fields)  # its Responses would pass over them in silence (seen on 0.32)
    if strict_unsupported_reason is not None and constraint is not None and is_free_choice(body.value("tool_choice")):
        for path, _ in constraint.strict_tools:
            unsupported_fields.drop_path_or_refuse(path.rpartition(".")[0] + ".strict", strict_unsupported_reason)


def tools_exclude_output(body: Body, constraint: Constraint, *, allows_call_or_output: bool) -> bool:
    """Whether tools and what constrains the answer are in each other's way.

    `either`: the engine makes a grammar of both, by which an answer is a call or obeys, where one tool is strict and the choice is free.
    """
    if constraint.output is None or not body.value("tools"):
        return False
    choice = body.value("tool_choice")
    return choice_kind(choice) != "none" and not (allows_call_or_output and constraint.strict_tools and is_free_choice(choice))


def drop_tools_or_constraint(body: Body, field: str, may_drop: Callable[[str], bool], unsupported_fields: UnsupportedFields) -> bool:
    """Of tools and a constraint, the tools, where the caller lets them go; else whether it lets go of the constraint. Or Unsupported.

    Where the choice is free vLLM lets no call be made (vllm-project/vllm#39929), or, from 0.22 to 0.29 and beside a strict tool, forgets
    the constraint; where a call is demanded it forgets the constraint. Seen on 0.32; older ones' parser/abstract_parser.py, read 2026-11.
    """
    if not may_drop("tools") and (may_drop(field) or may_drop(field.partition(".")[0])):
        unsupported_fields.dropped.append(field)
        return True
    reason = f"beside tools of which none is `strict` (and before 0.32 beside any) it holds no answer to `{field}` and makes calls too."
    if not is_free_choice(body.value("tool_choice")):
        reason = f"where a call is demanded it forgets `{field}`."
    unsupported_fields.drop_path_or_refuse("tools", f"{reason} (Or send `x-narthex-drop: {field}` to go without that.)")
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(name, None)
    return False


def is_free_choice(choice: Any) -> bool:
    """Whether the model may call a tool, and need not."""
    return choice_kind(choice) in (None, "auto")


def _is_empty_list(value: Any) -> bool:
    if not isinstance(value, Raw | list):
        return False
    raw = bytes(as_raw(value))  # pyright: ignore[reportUnknownArgumentType]
    return raw[:1] == b"[" and not raw[1:-1].strip()
