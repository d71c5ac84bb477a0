"""What is checked of a template's source before MiniJinja gets it, and which names it assigns and which templates it includes.

MiniJinja compiles by recursion: 4,000 operators in one expression, or 1,000 `elif`, end the process (3.1.0, a stack of 1 MB). So blocks
are short and few. Its fuel counts what a loop does, and not how lists grow that hold themselves: see vetting.py.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.templating.errors import TemplateFault

MAX_SOURCE_BYTES = 64 * 1024
MAX_BLOCK_CHARACTERS = 2_000
MAX_BLOCKS = 1_000
MAX_BRANCHES = 100

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
_NAME = re.compile(r"[^\W\d]\w*")


class Scanned(NamedTuple):
    """`includes`: names of other templates. `assigned`: names that it may give a value itself."""

    includes: frozenset[str]
    assigned: frozenset[str]


def scan_source(source: str) -> Scanned:
    """Raises TemplateFault for what must not be compiled."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise TemplateFault(f"a template may have {MAX_SOURCE_BYTES} bytes, not {len(source.encode())}")
    includes: set[str] = set()
    assigned: set[str] = set()
    branches = 0
    for number, (line, block, is_statement) in enumerate(_blocks(source)):
        if number >= MAX_BLOCKS:
            raise TemplateFault(f"a template may have {MAX_BLOCKS} blocks", line)
        if len(block) > MAX_BLOCK_CHARACTERS:
            raise TemplateFault(f"a block may have {MAX_BLOCK_CHARACTERS} characters, not {len(block)}", line)
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
    return Scanned(frozenset(includes), frozenset(assigned))


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
