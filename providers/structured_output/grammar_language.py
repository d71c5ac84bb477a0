"""Grammars: which language one is written in."""

import re
from typing import Literal

# A rule of GBNF; where one stands first, it is no Lark: there a name is followed by one colon.
_GBNF_RULE = re.compile(r"^\s*[A-Za-z_][\w-]*\s*::=", re.MULTILINE | re.ASCII)
_LARK_RULE = re.compile(r"^\s*(%llguidance\b|[?!]?[A-Za-z_]\w*(\[[^\]\n]*\])?(\.-?\d+)?\s*:(?!:))", re.MULTILINE | re.ASCII)


def detect_grammar_language(text: str) -> Literal["lark", "gbnf"]:
    """By its first rule. EBNF as xgrammar reads it, which SGLang and vLLM take, is written as GBNF is."""
    gbnf, lark = _GBNF_RULE.search(text), _LARK_RULE.search(text)
    if lark is not None and (gbnf is None or lark.start() < gbnf.start()):
        return "lark"
    return "gbnf"
