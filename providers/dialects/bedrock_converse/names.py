"""Valid ids of calls, and valid names of tools and documents, for Converse.

Source: the service model of Bedrock Runtime in botocore 1.44 (ToolUseId, ToolName, DocumentBlock), read 2026-11.
"""

import hashlib
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_RULE = "the name of a tool is 1 to 64 letters of a-z and A-Z, digits, - and _."

_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_MAX_NAME_LENGTH = 200
_FORBIDDEN_CHARACTERS = re.compile(r"[^a-zA-Z0-9\s\-()\[\]]+")
_SPACES = re.compile(r"\s+")
_FILE_EXTENSION = re.compile(r"\.[a-zA-Z0-9]{1,5}$")


def valid_call_id(id: str) -> str:
    """The id, or a hash of an id that Bedrock refuses: the same for the call and its result."""
    return id if _CALL_ID.fullmatch(id) else "tooluse_" + hashlib.sha256(id.encode()).hexdigest()[:24]


class DocumentNames:
    """The document names of one request, which must be unique: letters, digits, single spaces, hyphens, parentheses and brackets."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique_name(self, file_name: str | None) -> str:
        """A valid name without the file's extension, which its format field repeats."""
        cleaned = (
            _SPACES.sub(" ", _FORBIDDEN_CHARACTERS.sub("-", _FILE_EXTENSION.sub("", file_name or "")))
            .strip(" -")[: _MAX_NAME_LENGTH - 10]
            .strip()
        )
        base_name = cleaned or f"Document {len(self._used) + 1}"
        name, count = base_name, 1
        while name in self._used:
            count += 1
            name = f"{base_name} ({count})"
        self._used.add(name)
        return name
