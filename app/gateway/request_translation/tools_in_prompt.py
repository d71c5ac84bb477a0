"""Tools for a target that takes none, or not these: they are described in the prompt, are functions, or have other names."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from app.gateway.emulation.custom_tools import CustomTools, as_functions
from app.gateway.emulation.emulated_tools import EmulatedTools, demand_call, describe_tools, is_call_demanded
from app.gateway.emulation.emulation import add_tools
from app.gateway.request_translation.caller_fields import OLDER_TOOL_FIELDS
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.provider import Provider
from providers.adapters.tool_names import ToolNames, rename_tools
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import InvalidRequest
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS
from providers.structured_output import Constraint
from providers.structured_output.constraint import SLOW_MIN_BYTES

# OpenAI's names, of now and of before; Messages and Responses have no others.
_TOOL_FIELDS = frozenset({"tools", "tool_choice", *OLDER_TOOL_FIELDS})


async def with_tool_names(source: SourceRequest, tool_names: ToolNames, dialect_names: Sequence[str]) -> SourceRequest:
    """The request with names of tools that the target takes, which speaks these dialects; the same one, if it takes them."""
    caller_dialect_name = source.terms.dialect.name
    if caller_dialect_name not in CALLER_CHAT_DIALECTS:
        return source
    shares_dialect = caller_dialect_name in dialect_names  # a namespace is then sent as it is
    if not (tool_names.may_be_violated(source.raw) or (source.has_openai_tools and not shares_dialect)):
        return source
    try:
        chat = await source.read_chat()
    except InvalidRequest:
        return source
    renamed = rename_tools(chat, tool_names)
    return source if renamed is None else source.with_chat(renamed[0], source.constraint, tool_names=renamed[1])


async def with_custom_tools(source: SourceRequest) -> tuple[SourceRequest, CustomTools] | None:
    """The request with functions in place of tools for free text, and those tools. None: it has none.

    Texts with a grammar are checked where the response is complete anyway, or the caller refuses what was not: else a stream, which coding
    agents show as it arrives, would be held back for a call that it may not make.
    """
    checks = not source.request.stream or source.terms.refuses_unvalidated
    converted = as_functions(await source.read_chat(), checks=checks)
    if converted is None:
        return None
    chat, tools = converted
    if source.tool_names is not None:  # calls are read by the target's names, and have the caller's by then
        tools = replace(tools, formats={source.tool_names.get(name, name): format for name, format in tools.formats.items()})
    return source.with_chat(chat, source.constraint), tools


def may_emulate_tools(source: SourceRequest, provider: Provider, refused: Collection[str]) -> bool:
    """Whether emulate_tools() may help, as this target cannot be sent the fields `refused`."""
    body, dialect_name = source.request.body, source.terms.dialect.name
    return (
        dialect_name in CALLER_CHAT_DIALECTS
        and dialect_name != "openai_completions"
        and (
            "tools" in provider.unsupported_fields
            or (
                (body.has_value("tools") or body.has_value("functions") or source.has_context_items)
                and any(field.partition(".")[0] in _TOOL_FIELDS for field in refused)
            )
        )
    )


async def emulate_tools(
    source: SourceRequest, provider: Provider, *, may_replace_output: bool
) -> list[tuple[SourceRequest, EmulatedTools]]:
    """Forms of the request with its tools, or the demand for a call, in the prompt: best first; empty: that is not possible.

    `may_replace_output` says that an output format may be left out where a call is demanded.
    """
    chat = await source.read_chat()
    return await source.run_conversion(_emulate_tools, source, chat, provider, may_replace_output)


def add_emulated_tools(source: SourceRequest, translated: TranslatedRequest, tools: EmulatedTools) -> TranslatedRequest:
    """Adds what is to be done with the response to the translation of a form of the request that emulate_tools() made."""
    emulation = add_tools(translated.emulation, source.terms.dialect.name, source.field_names, tools)
    return replace(translated, constraint_plan=None, emulation=emulation)


def _emulate_tools(
    source: SourceRequest, chat: ChatRequest, provider: Provider, may_replace_output: bool
) -> list[tuple[SourceRequest, EmulatedTools]]:
    constraint, has_output = source.constraint, chat.output is not None
    if has_output and may_replace_output and is_call_demanded(chat):
        # The format is that of a text, and there will be a call instead: instructor sends both.
        chat = replace(chat, output=None)
        constraint = None if constraint is None else replace(constraint, output=None, whitespace=None)
    described = describe_tools(chat)
    if described is None:
        return []
    described_chat, tools = described
    has_tools = "tools" not in provider.unsupported_fields
    emulated: list[tuple[ChatRequest, Constraint | None, EmulatedTools]] = []
    if has_tools and has_output and (demanded := demand_call(chat, in_prompt=False)) is not None:
        emulated.append((demanded[0], constraint, demanded[1]))
    if tools.is_demanded and (provider.is_self_hosted or not has_tools):  # an engine that enforces schemas is made to write a call
        call_format = replace(described_chat, output=tools.call_schema)
        emulated.append((call_format, _call_constraint(tools), tools))
    if has_tools and (demanded := demand_call(chat, in_prompt=True)) is not None:
        emulated.append((demanded[0], constraint, demanded[1]))
    emulated.append((described_chat, None, tools))
    fields = {"output"} if has_output else set[str]()
    return [
        (source.with_chat(chat, constraint, places=tools.places), replace(tools, fields=tools.fields | fields))
        for chat, constraint, tools in emulated
    ]


def _call_constraint(tools: EmulatedTools) -> Constraint:
    """The constraint that makes an engine write a call and nothing else."""
    schema = tools.call_schema
    is_slow = len(bytes(schema.schema)) > SLOW_MIN_BYTES
    return Constraint(schema, "tool_choice", uncovered_paths=frozenset({"tool_choice"}), is_slow_to_convert=is_slow)
