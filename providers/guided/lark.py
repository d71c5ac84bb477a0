"""GBNF said in Lark, which llguidance reads: token by token, for the two differ in their words alone.

llguidance has a converter too; of 1.9.1's, `("a"*)?` comes out as `"a"*?`, which is no Lark, and `"\\u00e9"` as nothing that it reads.
"""

import json
import re

from providers.errors import Unsupported

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
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-", "^": "^", "/": "/"}
_OPENS = ("|", "(")


def gbnf_to_lark(gbnf: str) -> str:
    """Raises Unsupported for what is no GBNF as far as its tokens tell; whether they make sense is told by who reads the Lark."""
    names: dict[str, str] = {"root": "start"}
    rules: list[list[str]] = []
    at = 0
    while at < len(gbnf):
        token = _TOKEN.match(gbnf, at)
        if token is None or token.end() == at:
            raise Unsupported(f"the grammar is not GBNF at character {at}: {gbnf[at : at + 20]!r}")
        at = token.end()
        match token.lastgroup:
            case "rule":
                _close(rules)
                rules.append([f"{_named(token['rule'], names)}:"])
            case None:
                pass
            case _ if not rules:
                raise Unsupported(f"the grammar is not GBNF: it begins with {token[0]!r:.20}, which belongs to no rule")
            case kind:
                _add(rules[-1], kind, token, names)
    _close(rules)
    if not any(rule[0] == "start:" for rule in rules):
        raise Unsupported("the grammar has no rule `root`")
    return "%llguidance {}\n" + "\n".join(" ".join(rule) for rule in rules) + "\n"


def _add(rule: list[str], kind: str, token: re.Match[str], names: dict[str, str]) -> None:
    match kind:
        case "name":
            rule.append(_named(token["name"], names))
        case "text":
            rule.append(json.dumps("".join(_characters(token["text"])), ensure_ascii=False))
        case "members":
            rule.append(f"/[{token['not']}{_class(token['members'])}]/")
        case "count":
            _repeat(rule, re.sub(r"\s", "", token["count"]))
        case _:
            _sign(rule, token[0])


def _sign(rule: list[str], sign: str) -> None:
    match sign:
        case "*" | "+" | "?":
            _repeat(rule, sign)
        case ".":
            rule.append("/(?s:.)/")
        case _:
            if sign in "|)" and (len(rule) == 1 or rule[-1] in _OPENS):
                rule.append('""')
            rule.append(sign)


def _repeat(rule: list[str], times: str) -> None:
    if len(rule) == 1 or rule[-1][-1] in "|(*+?}":
        raise Unsupported(f"the grammar is not GBNF: `{times}` with nothing before it that could be repeated")
    rule[-1] += times


def _close(rules: list[list[str]]) -> None:
    """An option that says nothing is the empty text."""
    if rules and (len(rules[-1]) == 1 or rules[-1][-1] in _OPENS):
        rules[-1].append('""')


def _named(name: str, names: dict[str, str]) -> str:
    """Rules have small letters in Lark, and no hyphens."""
    if name not in names:
        plain = name.lower().replace("-", "_")
        taken = set(names.values())
        names[name] = plain if plain not in taken and plain[0] != "_" else f"rule_{len(names)}_{plain}"
    return names[name]


def _characters(said: str) -> list[str]:
    told: list[str] = []
    for found in _CHARACTER.finditer(said):
        code = found[1] or found[2] or found[3]
        if code is not None:
            point = int(code, 16)
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                raise Unsupported(f"the grammar says {found[0]!r}, which stands for no character")
            told.append(chr(point))
        elif found[4] is not None:
            if found[4] not in _NAMED:
                raise Unsupported(f"the grammar says {found[0]!r}, which is no escape of GBNF")
            told.append(_NAMED[found[4]])
        else:
            told.append(found[5])
    return told


def _class(members: str) -> str:
    """Each character by its code; a hyphen between two of them makes a range."""
    told: list[str] = []
    # An escaped hyphen is a character of its own; a bare one at either end too.
    parts = [(found[0], "".join(_characters(found[0]))) for found in _CHARACTER.finditer(members)]
    for at, (raw, character) in enumerate(parts):
        is_range = raw == "-" and 0 < at < len(parts) - 1
        told.append("-" if is_range else f"\\x{{{ord(character):x}}}")
    return "".join(told)
