"""Anthropic's rules, for chats of callers who speak another API: kept where the meaning stays, else refused with the rule's name.

Its own callers' bytes go as they are, and it tells them itself. Sources: beside those of the files that this one calls,
https://platform.claude.com/docs/en/build-with-claude/extended-thinking (what goes together with thinking), and its 400s "temperature and
top_p cannot both be specified for this model", "`temperature` is deprecated for this model", "Thinking may not be enabled when tool_choice
forces tool use", as many quote them; read 2026-11.
"""

from msgspec.structs import replace

from providers.chat import ChatRequest, Message, Text, ToolChoice
from providers.dialect import Concessions
from providers.guided import JsonObject, JsonSchema, Output
from providers.hosted.claude_models import Claude, read_claude
from providers.hosted.claude_schemas import fitted
from providers.hosted.claude_texts import fit_ending, fit_stops, fit_texts
from providers.hosted.claude_thinking import fit_thinking, is_manual, is_on
from providers.hosted.claude_tools import fit_tools

_ANTHROPIC = "anthropic_messages"
# What it may be while it reasons.
_LEAST_TOP_P = 0.95
_ALONE = "with nothing before or after it: no code fence, no explanation."
_OBJECT = f"Answer with one JSON object, and {_ALONE}"
_SCHEMA = f"Answer with JSON, and {_ALONE} It must be valid by this JSON schema:\n"


def bend_claude_chat(chat: ChatRequest, concessions: Concessions) -> ChatRequest:
    if chat.origin == _ANTHROPIC:
        return chat
    claude = read_claude(chat.model)
    chat = replace(chat, messages=fit_texts(chat, concessions), stop=fit_stops(chat, concessions), tools=fit_tools(chat, concessions))
    chat = replace(chat, thinking=fit_thinking(chat, claude, concessions))
    chat = replace(chat, messages=fit_ending(chat, claude, thinks=is_on(chat.thinking), concessions=concessions))
    chat = replace(chat, tool_choice=_choice(chat, claude, concessions))
    return _output(_sampling(chat, claude, concessions))


def _choice(chat: ChatRequest, claude: Claude, concessions: Concessions) -> ToolChoice | None:
    choice = chat.tool_choice
    if choice is None or choice.mode not in ("required", "named") or (claude.forced and not is_manual(chat.thinking)):
        return choice
    why = "while it reasons by a budget, as this model does" if claude.forced else "of this model"
    concessions.without("tool_choice", f"no call can be demanded {why}: it decides itself.")
    return ToolChoice("auto", allowed=(choice.name,) if choice.name is not None else choice.allowed)


def _sampling(chat: ChatRequest, claude: Claude, concessions: Concessions) -> ChatRequest:
    """1 is what holds if nothing is said: it asks for nothing."""
    thinks, never = is_on(chat.thinking), claude.samples == "never"
    if claude.samples == "freely" and not thinks:
        return chat
    said = {"temperature": chat.temperature, "top_p": chat.top_p, "top_k": chat.top_k}
    told = {field: value for field, value in said.items() if value is not None and (value != 1 or field == "top_k")}
    if claude.samples == "one" and told.keys() >= {"temperature", "top_p"}:
        concessions.without("top_p", "this model takes a temperature or `top_p`, and not both.")
        del told["top_p"]
    who = "this model" if never else "while it reasons, it"
    for field in [*told] if never or thinks else ():
        if never or field != "top_p" or told[field] < _LEAST_TOP_P:
            concessions.without(field, f"{who} takes none but what holds where nothing is said.")
            del told[field]
    top_k = told.get("top_k")
    return replace(chat, temperature=told.get("temperature"), top_p=told.get("top_p"), top_k=None if top_k is None else int(top_k))


def is_held(output: Output) -> bool:
    """Whether Anthropic holds answers to all that this says: https://platform.claude.com/docs/en/build-with-claude/structured-outputs."""
    return isinstance(output, JsonSchema) and fitted(output.schema, closes=output.strict is True).is_whole


def _output(chat: ChatRequest) -> ChatRequest:
    """What is not held is looked at in the answer. A schema of which nothing can be compiled is told in words."""
    match chat.output:
        case JsonObject():
            return _instructed(chat, _OBJECT)
        case JsonSchema(schema, strict=strict):
            told = fitted(schema, closes=strict is True).schema
            if told is None:
                return _instructed(chat, _SCHEMA + bytes(schema).decode())
            return replace(chat, output=replace(chat.output, schema=told))
        case _:
            return chat


def _instructed(chat: ChatRequest, words: str) -> ChatRequest:
    """After the instructions that there are."""
    messages = list(chat.messages)
    at = next((at for at, each in enumerate(messages) if each.role not in ("system", "developer")), len(messages))
    messages.insert(at, Message("system", (Text(words),)))
    return replace(chat, messages=tuple(messages), output=None)
