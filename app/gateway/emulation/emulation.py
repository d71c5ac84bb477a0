"""Emulation: what the gateway does itself for one response."""

import re
from collections.abc import Collection, Mapping

from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.emulation.compaction import Compaction
from app.gateway.emulation.custom_tools import CustomTools
from app.gateway.emulation.emulated_tools import EmulatedTools
from providers.canonical.chat import ChatRequest, Tool

# How callers of each dialect name stop sequences, and the wish for one tool call at a time.
STOP_FIELDS: Mapping[str, str] = {
    "openai_chat": "stop",
    "openai_completions": "stop",
    "anthropic_messages": "stop_sequences",
    "tensorzero_inference": "stop_sequences",
    "gemini": "generationConfig.stopSequences",
}
SINGLE_CALL_FIELDS: Mapping[str, str] = {
    "openai_chat": "parallel_tool_calls",
    "openai_responses": "parallel_tool_calls",
    "anthropic_messages": "tool_choice.disable_parallel_tool_use",
    "tensorzero_inference": "parallel_tool_calls",
}
_STRICT_TOOL = re.compile(r"tools\[(\d+)\](?:\.function)?\.strict")


class Emulation(Struct):
    """The work that the gateway does itself for one response, and what came of it."""

    # The caller's names of the fields that the gateway honours itself.
    fields: tuple[str, ...]
    # The texts at which it ends the response.
    stop: tuple[str, ...] = ()
    # Whether it passes on the first tool call of each choice alone, and how many others came so far.
    single_call: bool = False
    withheld_calls: int = 0
    # The schemas, by the names of their tools, to which it holds the arguments of calls.
    strict_tools: Mapping[str, Raw] = {}
    # The tools that it describes in the prompt, or whose call it demands there; None if the target has what the caller
    # wants of tools.
    tools: EmulatedTools | None = None
    # The target speaks the caller's dialect, but has its tools in another form (older functions, namespaces), so that
    # its calls are written anew for the caller.
    is_rewritten: bool = False
    # The response was ended at one of the texts of `stop`.
    has_cut: bool = False
    # The caller's names of tools, by those under which the target got them.
    tool_names: Mapping[str, str] = {}
    # The tools for free text that the target has as functions, by the caller's names. None: there are none.
    custom_tools: CustomTools | None = None
    # What becomes of the response, which is a summary of the conversation. None: it is none.
    compaction: Compaction | None = None

    @property
    def edits(self) -> bool:
        """Whether it changes the response: leaves out a part, or reads calls from the text."""
        is_changed = bool(self.stop) or self.single_call or self.is_rewritten or bool(self.tool_names) or self.custom_tools is not None
        return is_changed or self.compaction is not None or (self.tools is not None and self.tools.are_described)

    @property
    def checks(self) -> bool:
        """Whether it holds the response back until it is complete, and checks its calls."""
        holds_calls = bool(self.strict_tools) or (self.custom_tools is not None and self.custom_tools.are_checked)
        return holds_calls or (self.tools is not None and self.tools.is_demanded)

    @property
    def report(self) -> list[str]:
        """The fields, for the header x-narthex-emulated and the record; with the number of calls that were withheld."""
        withheld = f" ({self.withheld_calls} withheld)" if self.withheld_calls else ""
        return [field + withheld if field in SINGLE_CALL_FIELDS.values() else field for field in self.fields]


def make_emulation(chat: ChatRequest, fields: Collection[str]) -> Emulation:
    """Collects what the gateway has to do itself for the chat.

    `fields` are those of app.gateway.request_translation.emulable_fields that the target was sent without.
    """
    return Emulation(
        tuple(sorted(fields)),
        stop=chat.stop if any(field in STOP_FIELDS.values() for field in fields) else (),
        single_call=any(field in SINGLE_CALL_FIELDS.values() for field in fields),
        strict_tools=_strict_tools(chat, fields),
    )


def _strict_tools(chat: ChatRequest, fields: Collection[str]) -> Mapping[str, Raw]:
    indexes = {int(match.group(1)) for field in fields if (match := _STRICT_TOOL.fullmatch(field))}
    tools = [tool for at, tool in enumerate(chat.tools) if at in indexes]
    return {tool.name: tool.parameters for tool in tools if isinstance(tool, Tool) and tool.parameters is not None}


def add_tools(emulation: Emulation | None, dialect: str, field_names: Mapping[str, str], tools: EmulatedTools) -> Emulation:
    """The same, for a request whose tools are emulated. `field_names` has the caller's, by those of the canonical chat."""
    emulation = emulation or Emulation(())
    fields = {*emulation.fields, *(field_names.get(field, field) for field in tools.fields)}
    if tools.is_single:
        fields.add(SINGLE_CALL_FIELDS[dialect])
    return replace(
        emulation,
        fields=tuple(sorted(fields)),
        single_call=emulation.single_call or tools.is_single,
        strict_tools=emulation.strict_tools if tools.are_native else tools.strict,
        tools=tools,
    )


def rewrite_response(emulation: Emulation | None) -> Emulation:
    return replace(emulation or Emulation(()), is_rewritten=True)


def add_field(emulation: Emulation | None, field: str) -> Emulation:
    """The same, with one more field that the gateway honours itself."""
    fields = () if emulation is None else emulation.fields
    return replace(emulation or Emulation(()), fields=tuple(sorted({field, *fields})))


def add_tool_names(emulation: Emulation | None, tool_names: Mapping[str, str]) -> Emulation:
    """The same, for a request whose tools have other names at the target. `tool_names` is that of Emulation."""
    renamed = add_field(emulation, "tools (names)")
    tools = renamed.tools
    if tools is not None:  # the calls are read by the target's names, and checked by the caller's
        callers = {tool_names[name]: tool for name, tool in tools.tools.items() if name in tool_names}
        tools = replace(tools, tools={**tools.tools, **callers})
    strict_tools = {tool_names.get(name, name): schema for name, schema in renamed.strict_tools.items()}
    return replace(renamed, tool_names=tool_names, tools=tools, strict_tools=strict_tools)


def add_custom_tools(emulation: Emulation | None, custom_tools: CustomTools) -> Emulation:
    """The same, for a request whose tools for free text are functions at the target."""
    return replace(add_field(emulation, "tools (custom)"), custom_tools=custom_tools)


def add_compaction(emulation: Emulation | None, compaction: Compaction) -> Emulation:
    """The same, for a response that becomes a compaction."""
    return replace(add_field(emulation, "compaction_trigger"), compaction=compaction)
