"""Names of participants, for targets whose messages have no field for them: the name stands at the beginning of the message's text."""

from collections.abc import Sequence

from msgspec.structs import replace

from providers.canonical.chat import Message, Text
from providers.drop_policy import DropPolicy


def name_in_text(name: str, text: str) -> str:
    """Returns the text after the name, as AutoGen writes it for such models (`add_name_prefixes` of its OpenAI client, read 2026-11)."""
    return f"{name} said:\n{text}"


def write_participant_names(messages: Sequence[Message], drop_policy: DropPolicy) -> Sequence[Message]:
    """The messages without `name`; their first text begins with it.

    The assistant's name is dropped as a hint where there is only one: it tells nobody apart, and a model would imitate such a beginning.
    Raises Unsupported for a message that has a name and no text, unless `drop_policy` allows the drop.
    """
    if all(message.name is None for message in messages):
        return messages
    assistants = {message.name for message in messages if message.role == "assistant"} - {None}
    return [_write_name(message, f"messages[{index}].name", len(assistants), drop_policy) for index, message in enumerate(messages)]


def _write_name(message: Message, path: str, assistants: int, drop_policy: DropPolicy) -> Message:
    if message.name is None:
        return message
    if message.role == "assistant" and assistants == 1:
        drop_policy.drop_hint(path)
        return replace(message, name=None)
    for index, part in enumerate(message.parts):
        if isinstance(part, Text):
            # Citations count characters from the beginning.
            named = replace(part, text=name_in_text(message.name, part.text), citations=())
            return replace(message, name=None, parts=(*message.parts[:index], named, *message.parts[index + 1 :]))
    drop_policy.drop_or_refuse(path, "its messages name no participants, and this one has no text that could.")
    return replace(message, name=None)
