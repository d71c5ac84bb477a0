"""An output format for a target that has no field for it: the prompt demands it, and the response is checked."""

from msgspec.structs import replace

from app.gateway.emulation.described_places import DescribedPlaces, own_places
from app.gateway.emulation.emulated_tools import is_call_demanded
from app.gateway.emulation.emulation import add_field
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical.instructions import add_instruction, describe_output
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS
from providers.structured_output import ConstraintPlan


async def instruct_output(source: SourceRequest) -> SourceRequest | None:
    """The request with the output format in its prompt.

    None: that is not possible, as this is a raw prompt, or the format is one that no prompt can demand, or has a white-space pattern.
    """
    constraint, dialect_name = source.constraint, source.terms.dialect.name
    if constraint is None or constraint.output is None or constraint.whitespace is not None:
        return None
    if dialect_name not in CALLER_CHAT_DIALECTS or dialect_name == "openai_completions":
        return None
    instruction = describe_output(constraint.output)
    if instruction is None:
        return None
    chat = await source.read_chat()
    if chat.output is None or chat.prompt is not None:
        return None
    places: DescribedPlaces | None = None
    if not is_call_demanded(chat):  # with a call there is no text
        beside_tools = " Calls of functions are not meant by this." if chat.tools else ""
        messages = add_instruction(chat.messages, instruction + beside_tools)
        places = own_places(chat.messages).after_instruction(len(chat.messages), len(messages))
        chat = replace(chat, messages=messages)
    return source.with_chat(replace(chat, output=None), replace(constraint, output=None), places=places)


def add_instructed_output(source: SourceRequest, translated: TranslatedRequest) -> TranslatedRequest:
    """Adds what is to be done with the response to the translation of what instruct_output() made of this request."""
    assert source.constraint is not None and source.constraint.output is not None
    plan = ConstraintPlan("validated", source.constraint.output, is_instructed=True)
    return replace(translated, constraint_plan=plan, emulation=add_field(translated.emulation, source.constraint.field))
