"""What constrains an answer, as TGI's generate says it.

Source: router/src/lib.rs (GrammarType) of TGI 3.3, by /reference/engines.md 2; read 2026-11.
"""

from typing import Any

from providers import guided
from providers.errors import Unsupported
from providers.guided import Output


def write_grammar(output: Output) -> dict[str, Any]:
    """Raises Unsupported for what it has no word for."""
    match output:
        case guided.JsonSchema(schema=schema):
            return {"type": "json", "value": schema}
        case guided.Regex(pattern=pattern):
            return {"type": "regex", "value": _unanchored(pattern)}
        case guided.Choice(options=options):
            return {"type": "regex", "value": _unanchored(guided.choice_to_regex(options))}
        case _:
            raise Unsupported(f"it has no word for a {guided.titled(output)}.")


def _unanchored(pattern: str) -> str:
    """Outlines matches the whole answer, and refuses an anchor before it (/reference/engines.md 2.5)."""
    inner = pattern.removeprefix("^")
    before = inner[:-1]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return before if inner.endswith("$") and not escaped else inner
