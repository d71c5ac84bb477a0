"""What Converse takes for the ids and names of calls, tools and documents.

Source: the service model of Bedrock Runtime in botocore 1.44 (ToolUseId, ToolName, DocumentBlock), read 2026-11.
"""

import hashlib
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_RULE = "the name of a tool is 1 to 64 letters of a-z and A-Z, digits, - and _."

_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_LONGEST = 200
_STRANGE = re.compile(r"[^a-zA-Z0-9\s\-()\[\]]+")
_SPACES = re.compile(r"\s+")
_ENDING = re.compile(r"\.[a-zA-Z0-9]{1,5}$")


def call_id(id: str) -> str:
    """What takes the place of an id that it refuses is the same in the call and in its result."""
    return id if _CALL_ID.fullmatch(id) else "tooluse_" + hashlib.sha256(id.encode()).hexdigest()[:24]


class DocumentNames:
    """Of one request, in which each is another: letters, digits, single spaces, hyphens, parentheses and brackets."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def name(self, said: str | None) -> str:
        """Without the file's ending, which its format tells."""
        plain = _SPACES.sub(" ", _STRANGE.sub("-", _ENDING.sub("", said or ""))).strip(" -")[: _LONGEST - 10].strip()
        wanted = plain or f"Document {len(self._given) + 1}"
        name, count = wanted, 1
        while name in self._given:
            count += 1
            name = f"{wanted} ({count})"
        self._given.add(name)
        return name
