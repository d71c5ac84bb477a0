"""White space between JSON tokens: reads the regex for it from a request, and checks that it matches nothing else."""

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.raw_json import Body
from providers.structured_output.parse_regex import parse_regex
from providers.structured_output.read_constraint_fields import require_string
from providers.structured_output.regex_ast import Alternatives, Anchor, Characters, Node, Repeat, Sequence
from providers.structured_output.regexes import unrolled_size

_MAX_LENGTH = 1_000
_JSON_WHITESPACE = frozenset(map(ord, " \t\n\r"))


def read_whitespace(body: Body) -> tuple[str, str] | None:
    """The caller's path and the regex; None: not set. Raises InvalidRequest for a regex of anything but JSON's white space.

    vLLM accepts it and ignores it in every version (vllm#26362; observed with 0.32).
    """
    field = _read_field(body)
    if field is None:
        return None
    path, pattern = field
    if len(pattern) > _MAX_LENGTH or unrolled_size(pattern) > _MAX_LENGTH:
        raise InvalidRequest(f"`{path}` allows more than {_MAX_LENGTH} characters of white space in one place.", param=path)
    try:
        if _is_whitespace(parse_regex(pattern)):
            return field
    except Unsupported as reason:
        raise InvalidRequest(f"`{path}` cannot be used: {reason.message}", param=path) from None
    raise InvalidRequest(f"`{path}` must be a regex of spaces, tabs and line ends only: JSON allows no other white space.", param=path)


def _read_field(body: Body) -> tuple[str, str] | None:
    if body.has_value("guided_whitespace_pattern"):
        return "guided_whitespace_pattern", require_string("guided_whitespace_pattern", body.value("guided_whitespace_pattern"))
    match body.value("structured_outputs"):
        case {"whitespace_pattern": pattern} if pattern is not None:
            return "structured_outputs.whitespace_pattern", require_string("structured_outputs.whitespace_pattern", pattern)
        case {"disable_any_whitespace": True}:
            return "structured_outputs.disable_any_whitespace", ""
        case _:
            return None


def _is_whitespace(node: Node) -> bool:
    match node:
        case Characters():
            return all(
                high - low < len(_JSON_WHITESPACE) and _JSON_WHITESPACE.issuperset(range(low, high + 1)) for low, high in node.ranges
            )
        case Sequence():
            return all(map(_is_whitespace, node.parts))
        case Alternatives():
            return all(map(_is_whitespace, node.options))
        case Repeat():
            return _is_whitespace(node.part)
        case Anchor():
            return False
