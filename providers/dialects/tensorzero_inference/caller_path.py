"""Paths of the canonical chat, such as `messages[i].content[j]`, as paths in the caller's body."""

import re

from providers.canonical.raw_json import Body

_MESSAGE = re.compile(r"messages\[(\d+)\](.*)")


def caller_path(body: Body, path: str) -> str:
    """The canonical first message is `input.system`, if the body has one."""
    matched = _MESSAGE.fullmatch(path)
    if matched is None:
        return path
    index, rest = int(matched[1]), matched[2]
    input_fields = body["input"] if isinstance(body["input"], dict) else Body.read(bytes(body["input"]))
    if Body(input_fields).has_value("system"):
        if index == 0:
            return "input.system"
        index -= 1
    return f"input.messages[{index}]{rest}"
