"""Names of fields in other letters. Servers written in Go read `Model` as `model`, beside what was read, bounded and checked here."""

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.fields import FIELDS, OUTPUT_BOUND_FIELDS, OUTPUT_BOUND_OBJECTS, RESTRICTED_FIELDS

_NAMES = frozenset(
    {
        *("model", "messages", "prompt", "input", "system", "instructions", "stream", "stream_options", "options", "images"),
        *FIELDS,
        *OUTPUT_BOUND_FIELDS,
        *OUTPUT_BOUND_OBJECTS,
        *(name.partition(".")[0] for name in RESTRICTED_FIELDS),
    }
)
# Of requests as they nearly always are.
_USUAL_NAMES = _NAMES | {"temperature", "top_p", "seed", "reasoning_effort", "thinking", "include", "reasoning", "text"}


def check_letters(body: Body) -> None:
    """Raises InvalidRequest for a field whose name is that of another one but for its letters."""
    if _USUAL_NAMES.issuperset(body):
        return
    for key in body:
        if not (key.isascii() and key.islower()) and (name := key.casefold()) != key and name in _NAMES:
            raise InvalidRequest(f"There is no field `{key}`: write `{name}`.", param=key)
