"""What the caller calls a field of the body that an engine is sent, where the two speak different APIs: by way of the meaning's name."""

import re
from collections.abc import Callable, Mapping

from providers.errors import Unsupported

_CHAT = "openai_chat"
_IN_FUNCTION = re.compile(r"^(tools\[\d+\])\.(?:function|custom)(?=\.|$)")
# Of chat's two names for it, the older is the meaning's.
_ALIASES: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}


def names_for(caller: str, words: Mapping[str, str], engine: str, their_words: Mapping[str, str]) -> Callable[[str], str]:
    """`words` and `their_words`: what each dialect calls the fields of the meaning. A field that only the engine has keeps its name."""
    meant: dict[str, str] = {}
    for meaning, said in their_words.items():
        # Of several that have one name there, an effort rather than thinking as such.
        if said not in meant or meaning.endswith(".effort"):
            meant[said] = meaning

    def name(field: str) -> str:
        if engine == _CHAT != caller:
            field = _IN_FUNCTION.sub(r"\1", field)
        meaning = meant.get(field) or _ALIASES.get(field, field)
        return words.get(meaning, meaning)

    return name


def renamed(fault: Unsupported, name: Callable[[str], str]) -> Unsupported:
    """The same refusal, in the caller's words."""
    said = None if fault.param is None else name(fault.param)
    if said is None or said == fault.param:
        return fault
    message = fault.message.replace(f"`{fault.param}`", f"`{said}`").replace(f"x-narthex-drop: {fault.param}", f"x-narthex-drop: {said}")
    return Unsupported(message, param=said)
