"""Parts of messages as blocks of Converse, and what cannot be said there of them.

Sources: the service model of Bedrock Runtime in botocore 1.44 (ContentBlock); /reference/providers.md part 2; read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from providers.chat import Audio, Content, File, Image, Opaque, Reasoning, Refusal, Text, ToolCall, ToolResult
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.caching import KEY, Blocks, cache_point
from providers.dialects.bedrock_converse.families import Family
from providers.dialects.bedrock_converse.media import write_audio, write_document, write_image
from providers.dialects.bedrock_converse.names import TOOL_NAME, TOOL_RULE, DocumentNames, call_id
from providers.dialects.bedrock_converse.sealed import NAME, kind_of, write_input, write_opaque, write_reasoning

_CITED = {"enabled": True}
# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_SEALED = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})
# It refuses results without content, and texts that are blank.
_EMPTY: Mapping[str, str] = {"text": "(empty)"}
_WHY = "it is a field of another API."


class Parts:
    """Of one request. `called`: the names of the tools that it has calls of."""

    def __init__(self, family: Family, concessions: Concessions) -> None:
        self.called: list[str] = []
        self._family = family
        self._concessions = concessions
        self._documents = DocumentNames()

    def write(self, part: Content, path: str, *, given_back: bool) -> Blocks:
        """`given_back`: it is of an answer, of which callers only repeat what they were given: no field of it is a demand."""
        match part:
            case Text():
                blocks = self._text(part, path)
            case Refusal():
                blocks = [{"text": part.text}] if part.text.strip() else []
            case Reasoning():
                blocks = self._reasoning(part)
            case ToolCall():
                blocks = self._call(part, path)
            case ToolResult():
                blocks = self._result(part, path)
            case Image():
                if part.detail not in (None, "auto"):
                    self._concessions.hint(f"{path}.detail")
                blocks = self._media(write_image(part), path)
            case File():
                blocks = self._file(part, path)
            case Audio():
                blocks = self._media(write_audio(part) if self._family.hears else f"{self._family.name} does not hear.", path)
            case Opaque():
                return self._opaque(part, path)
            case _:
                assert_never(part)
        if isinstance(part, Refusal):
            return blocks
        self._extra(part, path, given_back=given_back)
        points = cache_point(part.extra, "messages", path, self._family, self._concessions) if blocks else []
        if points and "document" in blocks[-1]:
            # Straight after a document it refuses one (aws_bedrock/19 of the recordings shows the way).
            points.insert(0, {"text": "\n"})
        return [*blocks, *points]

    def _text(self, part: Text, path: str) -> Blocks:
        """Blank ones are refused but where a cache point stands after (aws_bedrock/19): they are left out."""
        if not part.text or (not part.text.strip() and KEY not in part.extra):
            return []
        own = [citation.raw for citation in part.citations if citation.origin == NAME]
        if len(own) < len(part.citations):
            self._concessions.hint(f"{path}.citations")
        return [{"citationsContent": {"content": [{"text": part.text}], "citations": own}} if own else {"text": part.text}]

    def _reasoning(self, part: Reasoning) -> Blocks:
        """Anthropic's signatures of Claude's thinking are good at all of its hosts, as its documentation of thinking says."""
        mine = part.seal is not None and (part.seal.origin == NAME or (self._family.is_claude and part.seal.origin == "anthropic_messages"))
        if mine:
            return [write_reasoning(part)]
        if part.seal is not None:
            self._concessions.hint("reasoning.seal")
        if part.text:
            self._concessions.hint("reasoning")
        return []

    def _call(self, call: ToolCall, path: str) -> Blocks:
        if call.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return []
        if not TOOL_NAME.fullmatch(call.name):
            self._concessions.without(path, f"{call.name!r:.100} cannot be the name of a tool: {TOOL_RULE}")
            return []
        if call.seal is not None:
            self._concessions.hint("reasoning.seal")
        self.called.append(call.name)
        return [{"toolUse": {"toolUseId": call_id(call.id), "name": call.name, "input": write_input(call.arguments)}}]

    def _result(self, result: ToolResult, path: str) -> Blocks:
        if result.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return []
        content: Blocks = []
        for at, each in enumerate(result.parts):
            where = f"{path}.content[{at}]"
            if isinstance(each, Image | File) and not self._family.shows:
                self._concessions.without(where, f"{self._family.name} takes text alone as the result of a tool.")
            else:
                content += self._inner(each, where)
        told: dict[str, Any] = {"toolUseId": call_id(result.id), "content": content or [dict(_EMPTY)]}
        if result.is_error is not None and self._family.shows:
            told["status"] = "error" if result.is_error else "success"
        elif result.is_error:
            self._concessions.hint(f"{path}.is_error")
        return [{"toolResult": told}]

    def _inner(self, part: Content, path: str) -> Blocks:
        """Within a result it takes no cache points."""
        blocks = self.write(part, path, given_back=False)
        kept = [block for block in blocks if "cachePoint" not in block and not (block.get("text") or "x").isspace()]
        if any("cachePoint" in block for block in blocks):
            self._concessions.hint(f"{path}.{KEY}")
        return kept

    def _file(self, file: File, path: str) -> Blocks:
        cited = self._family.is_claude and "citations" in file.extra and msgspec.json.decode(file.extra["citations"]) == _CITED
        blocks = self._media(write_document(file, self._documents.name(file.name), cited=cited), path)
        if blocks and "context" in file.extra:
            blocks[0]["document"]["context"] = file.extra["context"]
        return blocks

    def _media(self, written: dict[str, Any] | str, path: str) -> Blocks:
        if isinstance(written, dict):
            return [written]
        self._concessions.without(path, written)
        return []

    def _opaque(self, part: Opaque, path: str) -> Blocks:
        if part.origin == NAME:
            return [write_opaque(part)]
        kind = kind_of(part.raw)
        if kind in _SEALED:
            self._concessions.hint("reasoning.seal")
        else:
            self._concessions.without(path, f"only {part.origin:.40} has {kind or 'it':.40}.")
        return []

    def _extra(self, part: Text | Reasoning | ToolCall | ToolResult | Image | File | Audio, path: str, *, given_back: bool) -> None:
        for key, value in part.extra.items():
            if key == KEY:
                continue
            if isinstance(part, File) and (key == "context" or (key == "citations" and self._family.is_claude)):
                continue
            if given_back:
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, _WHY)
