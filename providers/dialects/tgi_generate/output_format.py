"""What constrains an answer, as TGI's generate says it.

Source: router/src/lib.rs (GrammarType) of TGI 3.3, by /reference/engines.md 2; read 2026-11.
"""

from typing import Any

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.structured_output import OutputFormat


def write_grammar(output: OutputFormat) -> dict[str, Any]:
    """Raises Unsupported for what it has no word for."""
    match output:
        case structured_output.JsonSchema(schema=schema):
            return {"type": "json", "value": schema}
        case structured_output.Regex(pattern=pattern):
            return {"type": "regex", "value": _unanchored(pattern)}
        case structured_output.Choice(options=options):
            return {"type": "regex", "value": _unanchored(structured_output.choice_to_regex(options))}
        case _:
            raise Unsupported(f"it has no word for a {structured_output.display_name(output)}.")


def _unanchored(pattern: str) -> str:
    """Outlines matches the whole answer, and refuses an anchor before it (/reference/engines.md 2.5)."""
    inner = pattern.removeprefix("^")
    without_last = inner[:-1]
    escaped = (len(without_last) - len(without_last.rstrip("\\"))) % 2 == 1
    return without_last if inner.endswith("$") and not escaped else inner
