"""Converts GBNF to Lark for llguidance, token by token, as the two differ only in their tokens.

The converter of llguidance 1.9.1 writes `("a"*)?` as `"a"*?`, which is not Lark, and `"\\u00e9"` as something that it cannot read.
"""

import json
import re

from providers.canonical.errors import Unsupported

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]*
    | (?P<rule>[A-Za-z_][\w-]*)\s*::=
    | (?P<name>[A-Za-z_][\w-]*)
    | "(?P<text>(?:[^"\\\n]|\\.)*)"
    | \[(?P<not>\^?)(?P<members>(?:[^\]\\]|\\.)+)\]
    | (?P<sign>[|().*+?]) | (?P<count>\{\s*\d+\s*(?:,\s*\d*\s*)?\})
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_CHARACTER = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)|([^\\])", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-", "^": "^", "/": "/"}
_OPENING_TOKENS = ("|", "(")


def gbnf_to_lark(gbnf: str) -> str:
    """Raises Unsupported for text that has tokens GBNF does not have; the reader of the Lark reports all other errors."""
    names: dict[str, str] = {"root": "start"}
    rules: list[list[str]] = []
    position = 0
    while position < len(gbnf):
        token = _TOKEN.match(gbnf, position)
        if token is None or token.end() == position:
            raise Unsupported(f"the grammar is not GBNF at character {position}: {gbnf[position : position + 20]!r}")
        position = token.end()
        match token.lastgroup:
            case "rule":
                _close_rule(rules)
                rules.append([f"{_rule_name(token['rule'], names)}:"])
            case None:
                pass
            case _ if not rules:
                raise Unsupported(f"the grammar is not GBNF: it begins with {token[0]!r:.20}, which belongs to no rule")
            case kind:
                _append_token(rules[-1], kind, token, names)
    _close_rule(rules)
    if not any(rule[0] == "start:" for rule in rules):
        raise Unsupported("the grammar has no rule `root`")
    return "%llguidance {}\n" + "\n".join(" ".join(rule) for rule in rules) + "\n"


def _append_token(rule: list[str], kind: str, token: re.Match[str], names: dict[str, str]) -> None:
    match kind:
        case "name":
            rule.append(_rule_name(token["name"], names))
        case "text":
            rule.append(json.dumps("".join(_decode_characters(token["text"])), ensure_ascii=False))
        case "members":
            rule.append(f"/[{token['not']}{_write_class(token['members'])}]/")
        case "count":
            _append_repetition(rule, re.sub(r"\s", "", token["count"]))
        case _:
            _append_operator(rule, token[0])


def _append_operator(rule: list[str], operator: str) -> None:
    match operator:
        case "*" | "+" | "?":
            _append_repetition(rule, operator)
        case ".":
            rule.append("/(?s:.)/")
        case _:
            if operator in "|)" and (len(rule) == 1 or rule[-1] in _OPENING_TOKENS):
                rule.append('""')
            rule.append(operator)


def _append_repetition(rule: list[str], suffix: str) -> None:
    if len(rule) == 1 or rule[-1][-1] in "|(*+?}":
        raise Unsupported(f"the grammar is not GBNF: `{suffix}` with nothing before it that could be repeated")
    rule[-1] += suffix


def _close_rule(rules: list[list[str]]) -> None:
    """Ends the last rule; an empty alternative becomes the empty text."""
    if rules and (len(rules[-1]) == 1 or rules[-1][-1] in _OPENING_TOKENS):
        rules[-1].append('""')


def _rule_name(name: str, names: dict[str, str]) -> str:
    """The Lark name of a rule: lower case and without hyphens."""
    if name not in names:
        lowered = name.lower().replace("-", "_")
        taken = set(names.values())
        names[name] = lowered if lowered not in taken and lowered[0] != "_" else f"rule_{len(names)}_{lowered}"
    return names[name]


def _decode_characters(text: str) -> list[str]:
    characters: list[str] = []
    for found in _CHARACTER.finditer(text):
        code = found[1] or found[2] or found[3]
        if code is not None:
            code_point = int(code, 16)
            if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
                raise Unsupported(f"the grammar has {found[0]!r}, which is not a valid character")
            characters.append(chr(code_point))
        elif found[4] is not None:
            if found[4] not in _ESCAPED_CHARACTERS:
                raise Unsupported(f"the grammar has {found[0]!r}, which is not an escape of GBNF")
            characters.append(_ESCAPED_CHARACTERS[found[4]])
        else:
            characters.append(found[5])
    return characters


def _write_class(members: str) -> str:
    """The members of a class with each character as its code point, and ranges kept."""
    written: list[str] = []
    # An escaped hyphen is a character, and so is a bare one at either end.
    parts = [(found[0], "".join(_decode_characters(found[0]))) for found in _CHARACTER.finditer(members)]
    for index, (raw, character) in enumerate(parts):
        is_range = raw == "-" and 0 < index < len(parts) - 1
        written.append("-" if is_range else f"\\x{{{ord(character):x}}}")
    return "".join(written)
