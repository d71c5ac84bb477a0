"""Adapts a chat to Claude's rules, whoever hosts the model: changed where the meaning stays, else refused with the rule.

Callers of Messages get Anthropic's own errors from Anthropic: there their chats stay as they are.

Sources, beside those of the files that this one imports: https://platform.claude.com/docs/en/build-with-claude/extended-thinking (what is
compatible with thinking), and the 400s "temperature and top_p cannot both be specified for this model", "`temperature` is deprecated for
this model", "Thinking may not be enabled when tool_choice forces tool use", as widely quoted; read 2026-11.
"""

from typing import Literal

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Message, Text, Tool, ToolChoice
from providers.canonical.instructions import is_instruction, place_instructions
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.drop_policy import DropPolicy
from providers.profiles.claude.json_schemas import fit_schema
from providers.profiles.claude.messages import drop_blank_stops, drop_blank_texts, drop_prefill
from providers.profiles.claude.models import ClaudeProfile, find_profile
from providers.profiles.claude.thinking import adapt_relayed_effort, adapt_thinking, has_thinking_budget, is_thinking_enabled
from providers.profiles.claude.tools import adapt_tools, fit_tools

_ANTHROPIC_MESSAGES = "anthropic_messages"
# The least top_p while thinking.
_MIN_TOP_P_WHILE_THINKING = 0.95
_NO_OTHER_TEXT = "with nothing before or after it: no code fence, no explanation."
_OBJECT_INSTRUCTION = f"Answer with one JSON object, and {_NO_OTHER_TEXT}"
_SCHEMA_INSTRUCTION = f"Answer with JSON, and {_NO_OTHER_TEXT} It must be valid against this JSON schema:\n"


def adapt_claude_chat(
    chat: ChatRequest,
    drop_policy: DropPolicy,
    profile: ClaudeProfile | None = None,
    *,
    native: Literal["as_it_is", "instructions", "all"] = "as_it_is",
) -> ChatRequest:
    """Adapts a chat to what a Claude model accepts. Raises Unsupported, through the drop policy.

    `chat.model` is the host's own name of the model. `profile` has the model's rules at this host; None means those of its name. `native`
    says what is adapted of chats of Messages callers.
    """
    if profile is None:
        profile = find_profile(chat.model)
    is_native = chat.origin == _ANTHROPIC_MESSAGES
    if is_native and native == "as_it_is":
        return chat
    if not is_native or profile.mid_system != "yes":
        chat = _place_instructions(chat, profile, drop_policy)
    if is_native and native == "instructions":
        return chat
    chat = replace(
        chat,
        messages=drop_blank_texts(chat, drop_policy),
        stop=drop_blank_stops(chat, drop_policy),
        tools=adapt_tools(chat, drop_policy, takes_schemas=profile.supports_schemas),
    )
    chat = adapt_thinking(chat, profile, drop_policy)
    chat = replace(chat, messages=drop_prefill(chat, profile, is_thinking=is_thinking_enabled(chat.thinking), drop_policy=drop_policy))
    chat = replace(chat, tool_choice=_adapt_tool_choice(chat, profile, drop_policy))
    return _adapt_output(_adapt_sampling(chat, profile, drop_policy), profile, drop_policy)


def adapt_relayed_chat(chat: ChatRequest, drop_policy: DropPolicy) -> ChatRequest:
    """Adapts a chat for a gateway of another API that translates to Claude itself.

    What the model refuses is adapted, and how it is said stays as it is.
    """
    profile = find_profile(chat.model)
    chat = _place_instructions(chat, profile, drop_policy)
    chat = replace(chat, stop=drop_blank_stops(chat, drop_policy), tools=fit_tools(chat, drop_policy), output=_without_limits(chat.output))
    chat = adapt_relayed_effort(chat, profile, drop_policy)
    is_thinking = is_thinking_enabled(chat.thinking)
    chat = replace(chat, messages=drop_prefill(chat, profile, is_thinking=is_thinking, drop_policy=drop_policy))
    has_budget = is_thinking and profile.thinking_mode == "budget"  # the gateway makes one of an effort
    chat = replace(chat, tool_choice=_adapt_tool_choice(chat, profile, drop_policy, has_budget=has_budget))
    return _adapt_sampling(chat, profile, drop_policy)


def move_schemas_to_prompt(chat: ChatRequest, drop_policy: DropPolicy) -> ChatRequest:
    """The chat for a host that takes no schemas: that of the answer stands in an instruction. Raises Unsupported for strict tools."""
    for index, tool in enumerate(chat.tools):
        if isinstance(tool, Tool) and tool.strict:
            drop_policy.drop_or_refuse(f"tools[{index}].strict", "it does not hold the arguments of calls to their schema.")
    tools = tuple(replace(tool, strict=None) if isinstance(tool, Tool) else tool for tool in chat.tools)
    chat = replace(chat, tools=tools)
    if not isinstance(chat.output, JsonSchema):
        return chat
    return _with_instruction(chat, _SCHEMA_INSTRUCTION + bytes(chat.output.schema).decode(), drop_policy)


def _place_instructions(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    """Later instructions as the model takes them: a system message that ends the user's turn, or marked texts of the user's.

    Source: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (limitations), read 2026-11.
    """
    placed = place_instructions(
        chat.messages,
        later="after_users" if profile.mid_system == "yes" else "as_user",
        ends_results=profile.separates_system_from_results,
    )
    if placed is None:
        return chat
    for index in placed.marked:
        for field in ("role", *chat.messages[index].extra):
            drop_policy.drop_hint(f"messages[{index}].{field}")
    drop_policy.renumber_messages(placed.indexes)
    return replace(chat, messages=placed.messages)


def _adapt_tool_choice(
    chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy, *, has_budget: bool = False
) -> ToolChoice | None:
    choice = chat.tool_choice
    if (
        choice is None
        or choice.mode not in ("required", "named")
        or (profile.can_force_tool_call and not (has_budget or has_thinking_budget(chat.thinking)))
    ):
        return choice
    subject = "this model, with a thinking budget," if profile.can_force_tool_call else "this model"
    drop_policy.drop_or_refuse("tool_choice", f"{subject} cannot be forced to call a tool.")
    return ToolChoice("auto", allowed=(choice.name,) if choice.name is not None else choice.allowed)


def _adapt_sampling(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    """Returns the chat without the temperature, top_p and top_k that the model does not support.

    1 is the default of the first two and neutral.
    """
    is_thinking, takes_no_sampling = is_thinking_enabled(chat.thinking), profile.sampling == "never"
    if profile.sampling == "freely" and not is_thinking:
        return chat
    requested = {"temperature": chat.temperature, "top_p": chat.top_p, "top_k": chat.top_k}
    kept = {field: value for field, value in requested.items() if value is not None and (value != 1 or field == "top_k")}
    if profile.sampling == "one" and kept.keys() >= {"temperature", "top_p"}:
        drop_policy.drop_missing("top_p", "this model accepts a temperature or `top_p`, not both.")
        del kept["top_p"]
    subject = "this model" if takes_no_sampling else "while thinking, it"
    for field in [*kept] if takes_no_sampling or is_thinking else ():
        if takes_no_sampling or field != "top_p" or kept[field] < _MIN_TOP_P_WHILE_THINKING:
            drop_policy.drop_missing(field, f"{subject} accepts only the default.")
            del kept[field]
    top_k = kept.get("top_k")
    return replace(chat, temperature=kept.get("temperature"), top_p=kept.get("top_p"), top_k=None if top_k is None else int(top_k))


def is_enforced(output: OutputFormat) -> bool:
    """Whether Claude is held to the whole output format: https://platform.claude.com/docs/en/build-with-claude/structured-outputs."""
    return isinstance(output, JsonSchema) and fit_schema(output.schema, closes_objects=output.strict is True).is_lossless


def _adapt_output(chat: ChatRequest, profile: ClaudeProfile, drop_policy: DropPolicy) -> ChatRequest:
    """Keeps what the model can be held to of a schema (the response is validated for the rest), or sends an instruction instead."""
    match chat.output:
        case JsonObject():
            return _with_instruction(chat, _OBJECT_INSTRUCTION, drop_policy)
        case JsonSchema(schema, strict=strict):
            supported_schema = fit_schema(schema, closes_objects=strict is True).schema if profile.supports_schemas else None
            if supported_schema is None:
                return _with_instruction(chat, _SCHEMA_INSTRUCTION + bytes(schema).decode(), drop_policy)
            return replace(chat, output=replace(chat.output, schema=supported_schema))
        case _:
            return chat


def _without_limits(output: OutputFormat | None) -> OutputFormat | None:
    """A schema without what Claude does not compile of it, if the rest is one; answers are validated."""
    if not isinstance(output, JsonSchema):
        return output
    fitted = fit_schema(output.schema, closes_objects=output.strict is True)
    return output if fitted.schema is None else replace(output, schema=fitted.schema)


def _with_instruction(chat: ChatRequest, instruction: str, drop_policy: DropPolicy) -> ChatRequest:
    """Adds a system message after the existing instructions and removes the output format."""
    messages = list(chat.messages)
    first_turn = next((index for index, each in enumerate(messages) if not is_instruction(each)), len(messages))
    messages.insert(first_turn, Message("system", (Text(instruction),)))
    drop_policy.renumber_messages([*range(first_turn), max(0, first_turn - 1), *range(first_turn, len(chat.messages))])
    return replace(chat, messages=tuple(messages), output=None)
