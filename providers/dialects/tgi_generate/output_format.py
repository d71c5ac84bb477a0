"""Output constraints as TGI's `grammar`.

Source: router/src/lib.rs (GrammarType) of TGI 3.3, by docs/sources.md#tgi, read 2026-11.
"""

from typing import Any

from providers.canonical.errors import Unsupported
from providers.canonical.output_format import Choice, JsonSchema, OutputFormat, Regex
from providers.structured_output.regexes import choice_to_regex
from providers.structured_output.write_constraint_fields import display_name


def write_grammar(output: OutputFormat) -> dict[str, Any]:
    """Raises Unsupported for a constraint that `grammar` cannot express."""
    match output:
        case JsonSchema(schema=schema):
            return {"type": "json", "value": schema}
        case Regex(pattern=pattern):
            return {"type": "regex", "value": _unanchored(pattern)}
        case Choice(options=options):
            return {"type": "regex", "value": _unanchored(choice_to_regex(options))}
        case _:
            raise Unsupported(f"it has no field for a {display_name(output)}.")


def _unanchored(pattern: str) -> str:
    """Outlines matches the complete output, and rejects a leading anchor (docs/sources.md#outlines)."""
    inner = pattern.removeprefix("^")
    without_last = inner[:-1]
    escaped = (len(without_last) - len(without_last.rstrip("\\"))) % 2 == 1
    return without_last if inner.endswith("$") and not escaped else inner
