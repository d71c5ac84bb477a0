"""YAML as LiteLLM reads it (PyYAML's safe loader), within bounds: what nests, repeats or refers to itself without end is refused."""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.domain.errors import BadConfiguration

_MAX_DEPTH = 50
# With each alias counted as all that it stands for: nine lines of nine aliases each stand for 400 million values.
_MAX_VALUES = 200_000
_MAX_KEY_CHARACTERS = 300
_MAX_NUMBER_CHARACTERS = 40
_TAG_PREFIX = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")


def parse_yaml(text: str, report_duplicate: Callable[[str], None]) -> Any:
    """The document as dicts, lists, texts, numbers, booleans and None. `report_duplicate` gets the paths of keys that occur twice.

    Raises BadConfiguration for what is not YAML, is not safe to load, or exceeds a bound.
    """
    try:
        root = cast("Node | None", yaml.compose(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
    except yaml.YAMLError as error:
        raise BadConfiguration(f"The file is not YAML: {_describe(error)}") from None
    except RecursionError:
        raise BadConfiguration(_too_deep()) from None
    return None if root is None else _Reader(report_duplicate).read(root, "", 0)


class _Reader:
    def __init__(self, report_duplicate: Callable[[str], None]) -> None:
        self._report_duplicate = report_duplicate
        self._values = 0

    def read(self, node: Node, path: str, depth: int) -> Any:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise BadConfiguration(f"The file has more than {_MAX_VALUES:,} values, counting what its aliases (*name) repeat.")
        if depth > _MAX_DEPTH:
            raise BadConfiguration(_too_deep())
        match node, node.tag.removeprefix(_TAG_PREFIX):
            case MappingNode(), "map":
                return self._read_mapping(node, path, depth)
            case SequenceNode(), "seq":
                return [self.read(each, f"{path}[{at}]", depth + 1) for at, each in enumerate(node.value)]
            case ScalarNode(), tag:
                return _read_scalar(node, tag, path)
            case _, tag:
                raise _unsupported_tag(tag, path)

    def _read_mapping(self, node: MappingNode, path: str, depth: int) -> Mapping[str, Any]:
        """Merged keys (<<) come before the mapping's own, which replace them."""
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise BadConfiguration(f"{path or 'The file'}: a key must be a text.")
            key = key_node.value
            if len(key) > _MAX_KEY_CHARACTERS:
                raise BadConfiguration(f"{path or 'The file'}: a key has more than {_MAX_KEY_CHARACTERS} characters.")
            key_path = f"{path}.{key}" if path else key
            value = self.read(value_node, key_path, depth + 1)
            if key_node.tag == f"{_TAG_PREFIX}merge":
                for each in reversed(cast("list[Any]", value)) if isinstance(value, list) else (value,):
                    if not isinstance(each, dict):
                        raise BadConfiguration(f"{key_path}: only mappings can be merged.")
                    merged |= cast("dict[str, Any]", each)
                continue
            if key in own:
                self._report_duplicate(key_path)
            own[key] = value
        return merged | own


def _read_scalar(node: ScalarNode, tag: str, path: str) -> Any:
    value = node.value
    match tag:
        case "str" | "timestamp":  # a date is how LiteLLM's users write a version of Azure's API
            return value
        case "null":
            return None
        case "bool":
            return value.lower() in ("yes", "true", "on")
        case "int":
            return _read_integer(value)
        case "float":
            return _read_float(value)
        case _:
            raise _unsupported_tag(tag, path)


def _unsupported_tag(tag: str, path: str) -> BadConfiguration:
    return BadConfiguration(f"{path or 'The file'}: the tag {tag!r:.100} is not supported.")


def _read_integer(text: str) -> int | str:
    """A text where the number is in another base than people expect of a configuration (1:30 is 90 in YAML 1.1), or too long for one."""
    if len(text) > _MAX_NUMBER_CHARACTERS or _INTEGER.fullmatch(text) is None:
        return text
    digits = text.replace("_", "")
    sign, magnitude = (-1, digits[1:]) if digits.startswith("-") else (1, digits.removeprefix("+"))
    try:
        if magnitude.startswith(("0b", "0x")):
            return sign * int(magnitude, 0)
        return sign * int(magnitude, 8 if len(magnitude) > 1 and magnitude.startswith("0") else 10)
    except ValueError:
        return text


def _read_float(text: str) -> float | str:
    """A text where it is no finite decimal number."""
    try:
        return float(text.replace("_", "")) if len(text) <= _MAX_NUMBER_CHARACTERS else text
    except ValueError:  # such as .inf
        return text


def _describe(error: yaml.YAMLError) -> str:
    """The problem and its place, without the lines around it, which may hold secrets."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"{problem!s:.200}{place}."


def _too_deep() -> str:
    return f"The file is nested more than {_MAX_DEPTH} levels deep, which no configuration needs."
