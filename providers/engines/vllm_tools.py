"""Tools as vLLM takes them: functions alone, at least one, and a choice among all of them."""

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from providers.guided import Constraint
from providers.losses import Losses
from providers.rest import as_raw
from providers.tools import choose_among_allowed, drop_foreign, kind_of
from providers.wire import Body


def bend_tools(body: Body, dialect: str, losses: Losses, constraint: Constraint | None, *, strict: str | None, runs_tools: bool) -> None:
    """`strict`: why a free choice is not held to the schemas of strict tools; None: it is. `runs_tools`: those of the host are let through.

    Raises Unsupported.
    """
    if "tools" not in body and "tool_choice" not in body:
        return
    choose_among_allowed(body)
    if dialect == "openai_chat" and _is_empty_list(body.get("tools")):
        del body["tools"]  # an empty list means none to OpenAI; vLLM answers it with 400 (seen on 0.32)
        if body.value("tool_choice") in ("auto", "none"):
            del body["tool_choice"]  # says nothing without tools; vLLM answers it with 400 there
    if not body.said("tools"):
        return
    if not runs_tools:
        drop_foreign(body, dialect, losses)  # its Responses would pass over them in silence (seen on 0.32)
    if strict is not None and constraint is not None and is_free(body.value("tool_choice")):
        for path, _ in constraint.tools:
            losses.part_with(path.rpartition(".")[0] + ".strict", strict)


def excludes(body: Body, constraint: Constraint, *, either: bool) -> bool:
    """Whether tools and what constrains the answer are in each other's way.

    `either`: the engine makes a grammar of both, by which an answer is a call or obeys, where one tool is strict and the choice is free.
    """
    if constraint.output is None or not body.value("tools"):
        return False
    choice = body.value("tool_choice")
    return kind_of(choice) != "none" and not (either and constraint.tools and is_free(choice))


def give_up_tools(body: Body, field: str, may_drop: Callable[[str], bool], losses: Losses) -> bool:
    """Of tools and a constraint, the tools, where the caller lets them go; else whether it lets go of the constraint. Or Unsupported.

    Where the choice is free vLLM lets no call be made (vllm-project/vllm#39929), or, from 0.22 to 0.29 and beside a strict tool, forgets
    the constraint; where a call is demanded it forgets the constraint. Seen on 0.32; older ones' parser/abstract_parser.py, read 2026-11.
    """
    if not may_drop("tools") and (may_drop(field) or may_drop(field.partition(".")[0])):
        losses.dropped.append(field)
        return True
    why = f"beside tools of which none is `strict` (and before 0.32 beside any) it holds no answer to `{field}` and makes calls too."
    if not is_free(body.value("tool_choice")):
        why = f"where a call is demanded it forgets `{field}`."
    losses.part_with("tools", f"{why} (Or send `x-narthex-drop: {field}` to go without that.)")
    for name in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(name, None)
    return False


def is_free(choice: Any) -> bool:
    """Whether the model may call a tool, and need not."""
    return kind_of(choice) in (None, "auto")


def _is_empty_list(value: Any) -> bool:
    if not isinstance(value, Raw | list):
        return False
    raw = bytes(as_raw(value))  # pyright: ignore[reportUnknownArgumentType]
    return raw[:1] == b"[" and not raw[1:-1].strip()
