"""Checks of a template's source before MiniJinja gets it, and the names it assigns and the templates it includes.

MiniJinja compiles by recursion: 4,000 operators in one expression, or 1,000 `elif`, end the process (3.1.0, a
stack of 1 MB). So blocks are short and few. Its fuel counts what a loop does, but not how lists grow that
hold themselves: see vetting.py. Nor does it count the indent of `tojson`, which is written before the fuel is
taken. So the indent must be a number in the template, and never one of a caller.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.templating.errors import TemplateFault

MAX_SOURCE_BYTES = 64 * 1024
MAX_BLOCK_CHARACTERS = 2_000
MAX_BLOCKS = 1_000
MAX_BRANCHES = 100
MAX_INDENT = 16

_OPENING = re.compile(r"\{[{%#]")
# Strings may hold what ends a block. Every alternative begins with another character, so nothing is tried twice.
_INSIDE = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|%(?!\})|\}(?!\})|[^"'%}])*+"""
_BLOCK = re.compile(
    rf"\{{#.*?#\}}|\{{\{{({_INSIDE})\}}\}}|\{{%[-+]?\s*(raw)\s*[-+]?%\}}.*?\{{%[-+]?\s*endraw\s*[-+]?%\}}|\{{%({_INSIDE})%\}}", re.DOTALL
)
_STRING = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'""", re.DOTALL)
_INCLUDE = re.compile(r"[-+\s]*(include|extends|import|from)\b(.*)", re.DOTALL)
_LITERAL_NAME = re.compile(r"""\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*(?:$|[-+]|ignore\s+missing|as\s|import\s|with\s|without\s)""")
_ASSIGNMENT = re.compile(r"[-+\s]*(?:set|for|with|macro|call|import|from|filter)\b(.*)", re.DOTALL)
# Of a block whose strings are "tojson", where they may be that name, or else "".
_FILTER = re.compile(r"(?:\||^[-+\s]*filter\b)\s*(tojson|map)\s*\(")
_INDENT = r"(?:indent\s*=\s*)?(?:([0-9]{1,2})|[tT]rue|[fF]alse|[nN]one)?\s*,?\s*\)"
_LITERAL_INDENT = re.compile(rf"\s*{_INDENT}")
# An attribute, a filter that the template names, or one without arguments.
_LITERAL_MAP = re.compile(rf"""\s*(?:attribute\s*=|""\s*[,)]|"tojson"\s*(?:,\s*{_INDENT}|\))|[\w.]+\s*\))""")
_NAME = re.compile(r"[^\W\d]\w*")


# A list may be repeated without end: MiniJinja takes its fuel for that too late. So may a number that follows a power.
_MULTIPLICATION = re.compile(r"([0-9]*)\s*(\*+)\s*([0-9]*)")
_MAX_FACTOR_DIGITS = 4


class Scanned(NamedTuple):
    """The result of a scan.

    `includes` are names of other templates. `assigned` are names that the template may give a value itself.
    `is_bounded` means that fuel bounds the time of all that it does. If not, it multiplies by what an input
    may say.
    """

    includes: frozenset[str]
    assigned: frozenset[str]
    is_bounded: bool = True


def scan_source(source: str) -> Scanned:
    """Raises TemplateFault for what must not be compiled."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise TemplateFault(f"a template may have {MAX_SOURCE_BYTES} bytes, not {len(source.encode())}")
    includes: set[str] = set()
    assigned: set[str] = set()
    branches = 0
    is_bounded = True
    for number, (line, block, is_statement) in enumerate(_blocks(source)):
        if number >= MAX_BLOCKS:
            raise TemplateFault(f"a template may have {MAX_BLOCKS} blocks", line)
        if len(block) > MAX_BLOCK_CHARACTERS:
            raise TemplateFault(f"a block may have {MAX_BLOCK_CHARACTERS} characters, not {len(block)}", line)
        _check_indents(block, line)
        is_bounded = is_bounded and not _multiplies_without_bound(block)
        if not is_statement:
            continue
        branches += block.lstrip("-+ \t\r\n").startswith("elif")
        if branches > MAX_BRANCHES:
            raise TemplateFault(f"a template may have {MAX_BRANCHES} `elif`", line)
        statement = _INCLUDE.match(block)
        if statement is not None:
            includes.add(_included_name(statement[1], statement[2], line))
        assignment = _ASSIGNMENT.match(block)
        if assignment is not None:
            assigned.update(_NAME.findall(_STRING.sub("", assignment[1])))
    return Scanned(frozenset(includes), frozenset(assigned), is_bounded)


def _check_indents(block: str, line: int) -> None:
    bare = _STRING.sub(lambda string: '"tojson"' if "\\" in string[0] or string[0][1:-1] == "tojson" else '""', block)
    for found in _FILTER.finditer(bare):
        if found[1] == "map":
            literal = _LITERAL_MAP.match(bare, found.end())
            if literal is None:
                raise TemplateFault("a filter that `map` gives arguments must be named in quotes, and `tojson` gets a number", line)
        else:
            literal = _LITERAL_INDENT.match(bare, found.end())
        if literal is None or int(literal[1] or 0) > MAX_INDENT:
            raise TemplateFault(
                f"the indent of `tojson` must be a number up to {MAX_INDENT} in the template, as in `tojson(indent=2)`", line
            )


def _multiplies_without_bound(block: str) -> bool:
    """Whether neither factor is a small number that the template itself has."""
    bare = _STRING.sub('""', block)
    if "*" not in bare:
        return False
    for found in _MULTIPLICATION.finditer(bare):
        before, after = bare[: found.start()][-1:], bare[found.end() :].lstrip()[:1]
        is_factor_before = 0 < len(found[1]) <= _MAX_FACTOR_DIGITS and not re.match(r"[\w.\])]", before)
        is_factor_after = 0 < len(found[3]) <= _MAX_FACTOR_DIGITS and not re.match(r"[\w.|\[(*]", after)
        if found[2] != "*" or not (is_factor_before or is_factor_after):
            return True
    return False


def _blocks(source: str) -> Iterator[tuple[int, str, bool]]:
    """The line, the inside, and whether it is a statement, of each block but comments and `raw`."""
    at, line = 0, 1
    while (opening := _OPENING.search(source, at)) is not None:
        line += source.count("\n", at, opening.start())
        block = _BLOCK.match(source, opening.start())
        if block is None:
            raise TemplateFault(f"`{opening[0]}` is not closed, or holds a string that is not", line)
        if block[1] is not None:
            yield line, block[1], False
        elif block[3] is not None:
            yield line, block[3], True
        line += source.count("\n", opening.start(), block.end())
        at = block.end()


def _included_name(statement: str, rest: str, line: int) -> str:
    literal = _LITERAL_NAME.match(rest)
    if literal is None:
        raise TemplateFault(f"`{statement}` must name the other template in quotes, not compute its name", line)
    return literal[1] if literal[1] is not None else literal[2]
