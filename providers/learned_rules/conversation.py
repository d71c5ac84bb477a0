"""Messages, tools and betas that a host refuses for one of its models."""

from collections.abc import Iterable
from typing import Any, cast

from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.learned_rules.fields import decode
from providers.learned_rules.rule import LearnedRule
from providers.learned_rules.thinking import is_thinking_off

_FORCED_MODES = ("required", "any")
_FORCED_TYPES = ("tool", "any", "function", "custom")


def do_not_force_tools(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Raises Unsupported where a call must be; the gateway then demands it in the prompt, and checks that it came."""
    choice: Any = body.value("tool_choice") if "tool_choice" in body else None
    fields = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    is_forced = choice in _FORCED_MODES or fields.get("type") in _FORCED_TYPES or fields.get("mode") == "required"
    if not is_forced or is_thinking_off(body):
        return False
    drop_policy.drop_path_or_refuse("tool_choice", "this model cannot be forced to call a tool while it thinks.")
    del body["tool_choice"]
    if fields.get("disable_parallel_tool_use") is True:
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return True


def has_function_tools(body: Body) -> bool:
    """Whether a Chat body has function tools beside reasoning: OpenAI's Chat serves custom ones, and any at the effort `none`."""
    if not body.has_value("tools") or body.value("reasoning_effort") == "none":
        return False
    tools: Any = body.value("tools")
    return isinstance(tools, list) and any(
        isinstance(tool, dict) and cast("dict[str, Any]", tool).get("type") == "function" for tool in cast("list[Any]", tools)
    )


def leave_prefill_out(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Leaves out the final assistant message that the model was to continue, and returns whether there was one.

    Raises Unsupported where that is not allowed.
    """
    messages = _messages(body)
    last = messages[-1] if messages else None
    if last is None or last.get("role") != "assistant" or last.get("tool_calls") or _has_calls(last.get("content")):
        return False
    drop_policy.drop_path_or_refuse(f"messages[{len(messages) - 1}]", "this model does not continue a final assistant message.")
    body["messages"] = messages[:-1]
    return True


def say_instructions_as_user(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Messages of the role `system` among those of a Messages body: the first ones join `system`, later ones become marked user text."""
    messages = _messages(body)
    if not any(each.get("role") == "system" for each in messages):
        return False
    first_turn = next((at for at, each in enumerate(messages) if each.get("role") != "system"), len(messages))
    leading = [block for each in messages[:first_turn] for block in _text_blocks(each.get("content"))]
    if leading:
        system: Any = decode(body["system"]) if body.has_value("system") else []
        body["system"] = [*_text_blocks(system), *leading]
    kept: list[dict[str, Any]] = []
    behind_results: list[dict[str, Any]] = []
    for at, message in enumerate(messages[first_turn:], first_turn):
        if message.get("role") != "system":
            kept += [message, *behind_results]
            behind_results = []
            continue
        drop_policy.report_dropped(f"messages[{at}].role")
        if "output_config" in message:
            drop_policy.report_dropped(f"messages[{at}].output_config")
        blocks = _text_blocks(message.get("content"))
        texts = "\n".join(str(block.get("text", "")) for block in blocks)
        marks = [{"cache_control": block["cache_control"]} for block in blocks if "cache_control" in block]
        said = {"type": "text", "text": f"<system>\n{texts}\n</system>", **(marks[-1] if marks else {})}
        marked = {"role": "user", "content": [said]}
        # Results stay right behind their calls.
        (behind_results if kept and _has_calls(kept[-1].get("content")) else kept).append(marked)
    body["messages"] = [*kept, *behind_results]
    return True


def leave_betas_out(refused: Iterable[str], body: Body, betas: bytes) -> tuple[bytes, bool]:
    """The header `anthropic-beta` without these betas, and whether any was there or in the body, from which it is removed, too."""
    names = {name.encode() for name in refused}
    sent = [name for part in betas.split(b",") if (name := part.strip())]
    kept = [name for name in sent if name not in names]
    in_body: Any = body.value("anthropic_beta") if "anthropic_beta" in body else None
    has_changed = len(kept) < len(sent)
    if isinstance(in_body, list):
        listed = cast("list[Any]", in_body)
        kept_in_body = [name for name in listed if str(name).encode() not in names]
        if len(kept_in_body) < len(listed):
            has_changed = True
            if kept_in_body:
                body["anthropic_beta"] = kept_in_body
            else:
                del body["anthropic_beta"]
    return (b",".join(kept), True) if has_changed else (betas, False)


def _messages(body: Body) -> list[dict[str, Any]]:
    """Empty for what is no list of objects: the host says what is wrong with it."""
    if not body.has_value("messages"):
        return []
    messages: Any = decode(body["messages"])
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in cast("list[Any]", messages)):
        return []
    return cast("list[dict[str, Any]]", messages)


def _text_blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [cast("dict[str, Any]", block) for block in cast("list[Any]", content)] if isinstance(content, list) else []


def _has_calls(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "tool_use" for block in cast("list[Any]", content)
    )
