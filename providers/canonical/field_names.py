"""Field names of an engine's body -> the caller's own, for a caller of another dialect; by way of the names in ChatRequest."""

import re
from collections.abc import Callable, Mapping

from providers.canonical.errors import Unsupported

_CHAT = "openai_chat"
_IN_FUNCTION = re.compile(r"^(tools\[\d+\])\.(?:function|custom)(?=\.|$)")
# OpenAI chat has two names for this; ChatRequest uses the older one.
_ALIASES: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}


def field_name_translator(
    caller: str, caller_names: Mapping[str, str], engine: str, engine_names: Mapping[str, str]
) -> Callable[[str], str]:
    """A function from the engine dialect's names to the caller's. A field that only the engine has keeps its name.

    `caller_names` and `engine_names` lead from ChatRequest's names to those of the dialect, where they differ.
    """
    canonical_names: dict[str, str] = {}
    for canonical, engine_name in engine_names.items():
        # Where several share one name there, the effort is preferred to `thinking` itself.
        if engine_name not in canonical_names or canonical.endswith(".effort"):
            canonical_names[engine_name] = canonical

    def translate(field: str) -> str:
        if engine == _CHAT != caller:
            field = _IN_FUNCTION.sub(r"\1", field)
        canonical_name = canonical_names.get(field) or _ALIASES.get(field, field)
        return caller_names.get(canonical_name, canonical_name)

    return translate


def rename_field_in_error(error: Unsupported, name: Callable[[str], str]) -> Unsupported:
    """The same error with the caller's name of the field, in its message and its `param`."""
    caller_name = None if error.param is None else name(error.param)
    if caller_name is None or caller_name == error.param:
        return error
    message = error.message.replace(f"`{error.param}`", f"`{caller_name}`").replace(
        f"x-narthex-drop: {error.param}", f"x-narthex-drop: {caller_name}"
    )
    return error.reworded(message, param=caller_name)
