"""What the caller calls a field of the body that an engine is sent, where the two speak different APIs: by way of the meaning's name."""

import re
from collections.abc import Callable, Mapping

from providers.canonical.errors import Unsupported

_CHAT = "openai_chat"
_IN_FUNCTION = re.compile(r"^(tools\[\d+\])\.(?:function|custom)(?=\.|$)")
# Of chat's two names for it, the older is the meaning's.
_ALIASES: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}


def field_name_translator(
    caller: str, caller_names: Mapping[str, str], engine: str, engine_names: Mapping[str, str]
) -> Callable[[str], str]:
    """`words` and `their_words`: what each dialect calls the fields of the meaning. A field that only the engine has keeps its name."""
    canonical_names: dict[str, str] = {}
    for canonical, engine_name in engine_names.items():
        # Of several that have one name there, an effort rather than thinking as such.
        if engine_name not in canonical_names or canonical.endswith(".effort"):
            canonical_names[engine_name] = canonical

    def translate(field: str) -> str:
        if engine == _CHAT != caller:
            field = _IN_FUNCTION.sub(r"\1", field)
        meaning = canonical_names.get(field) or _ALIASES.get(field, field)
        return caller_names.get(meaning, meaning)

    return translate


def rename_field_in_error(error: Unsupported, name: Callable[[str], str]) -> Unsupported:
    """The same refusal, in the caller's words."""
    caller_name = None if error.param is None else name(error.param)
    if caller_name is None or caller_name == error.param:
        return error
    message = error.message.replace(f"`{error.param}`", f"`{caller_name}`").replace(
        f"x-narthex-drop: {error.param}", f"x-narthex-drop: {caller_name}"
    )
    return Unsupported(message, param=caller_name)
