"""Regexes as xgrammar takes them, which vLLM takes first: its `.` is also the end of a line (seen on 0.32, 2026-11)."""

_ANY_BUT_NEWLINE = "[^\\n]"


def write_pattern(pattern: str) -> str:
    written: list[str] = []
    in_class = escaping = False
    for each in pattern:
        written.append(_ANY_BUT_NEWLINE if each == "." and not in_class and not escaping else each)
        if escaping or each == "\\":
            escaping = not escaping
        elif each == "[":
            in_class = True
        elif each == "]":
            in_class = False
    return "".join(written)
