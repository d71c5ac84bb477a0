"""Detects the language of a grammar."""

import re
from typing import Literal

# A rule of GBNF has `::=` after its name, a rule of Lark a single colon.
_GBNF_RULE = re.compile(r"^\s*[A-Za-z_][\w-]*\s*::=", re.MULTILINE | re.ASCII)
_LARK_RULE = re.compile(r"^\s*(%llguidance\b|[?!]?[A-Za-z_]\w*(\[[^\]\n]*\])?(\.-?\d+)?\s*:(?!:))", re.MULTILINE | re.ASCII)


def detect_grammar_language(text: str) -> Literal["lark", "gbnf"]:
    """The language of the first rule. The EBNF of xgrammar, which SGLang and vLLM accept, has the syntax of GBNF."""
    gbnf, lark = _GBNF_RULE.search(text), _LARK_RULE.search(text)
    if lark is not None and (gbnf is None or lark.start() < gbnf.start()):
        return "lark"
    return "gbnf"
