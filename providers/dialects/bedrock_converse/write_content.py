"""Parts of messages as blocks of Converse; what they cannot express is dropped or refused.

Sources: the service model of Bedrock Runtime in botocore 1.44 (ContentBlock); docs/sources.md#bedrock; read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from providers.canonical.chat import Audio, Content, File, Image, Opaque, Reasoning, Refusal, Text, ToolCall, ToolResult
from providers.canonical.tool_calls import write_call_input
from providers.dialects.bedrock_converse.cache_points import CACHE_CONTROL, Blocks, cache_point
from providers.dialects.bedrock_converse.media import write_audio, write_document, write_image
from providers.dialects.bedrock_converse.names import TOOL_NAME, TOOL_RULE, DocumentNames, valid_call_id
from providers.dialects.bedrock_converse.opaque_blocks import NAME, write_opaque, write_reasoning
from providers.drop_policy import DropPolicy
from providers.profiles.bedrock.families import Family
from providers.unsupported import REASONING_SIGNATURE, drop_opaque_part, drop_part_fields

_CITATIONS_ENABLED = {"enabled": True}
# Results without content and blank texts are refused.
_EMPTY_TEXT: Mapping[str, str] = {"text": "(empty)"}


class ContentWriter:
    """Writes the parts of one request."""

    def __init__(self, family: Family, drop_policy: DropPolicy) -> None:
        self.called_tools: list[str] = []  # the names of the tools that it has calls of
        self._family = family
        self._drop_policy = drop_policy
        self._document_names = DocumentNames()

    def write_part(self, part: Content, path: str, *, from_assistant: bool) -> Blocks:
        """The blocks of a part.

        `from_assistant` says that the part belongs to an earlier answer, which callers only repeat, so that its fields demand nothing.
        """
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
                    self._drop_policy.drop_hint(f"{path}.detail")
                blocks = self._media(write_image(part), path)
            case File():
                blocks = self._file(part, path)
            case Audio():
                blocks = self._media(write_audio(part) if self._family.audio_input else f"{self._family.name} takes no audio.", path)
            case Opaque():
                return self._opaque(part, path)
            case _:
                assert_never(part)
        if isinstance(part, Refusal):
            return blocks
        self._drop_extra(part, path, from_assistant=from_assistant)
        points = cache_point(part.extra, "messages", path, self._family, self._drop_policy) if blocks else []
        if isinstance(part, ToolResult) and not points and CACHE_CONTROL not in part.extra:
            points = self._points_within(part, path)
        if points and "document" in blocks[-1]:
            # A cache point directly after a document is refused (recording aws_bedrock/19).
            points.insert(0, {"text": "\n"})
        return [*blocks, *points]

    def _text(self, part: Text, path: str) -> Blocks:
        """Leaves out blank texts, which are refused, unless a cache point follows (recording aws_bedrock/19)."""
        if not part.text or (not part.text.strip() and CACHE_CONTROL not in part.extra):
            return []
        native = [citation.raw for citation in part.citations if citation.origin == NAME]
        if len(native) < len(part.citations):
            self._drop_policy.drop_hint(f"{path}.citations")
        return [{"citationsContent": {"content": [{"text": part.text}], "citations": native}} if native else {"text": part.text}]

    def _reasoning(self, part: Reasoning) -> Blocks:
        """Anthropic's signatures of Claude's thinking are valid at all hosts, as its documentation of thinking says."""
        is_accepted = part.opaque_state is not None and (
            part.opaque_state.origin == NAME or (self._family.is_claude and part.opaque_state.origin == "anthropic_messages")
        )
        if is_accepted:
            return [write_reasoning(part)]
        if part.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        if part.text:
            self._drop_policy.drop_hint("reasoning")
        return []

    def _call(self, call: ToolCall, path: str) -> Blocks:
        if not TOOL_NAME.fullmatch(call.name):
            self._drop_policy.drop_or_refuse(path, f"{call.name!r:.100} is not a valid name of a tool: {TOOL_RULE}")
            return []
        if call.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        self.called_tools.append(call.name)
        return [
            {
                "toolUse": {
                    "toolUseId": valid_call_id(call.id),
                    "name": call.name,
                    "input": write_call_input(call.arguments, custom=call.custom),
                }
            }
        ]

    def _result(self, result: ToolResult, path: str) -> Blocks:
        content: Blocks = []
        for index, result_part in enumerate(result.parts):
            part_path = f"{path}.content[{index}]"
            if isinstance(result_part, Image | File) and not self._family.media_in_results:
                self._drop_policy.drop_or_refuse(part_path, f"{self._family.name} takes results of text alone.")
            else:
                content += self._result_part(result_part, part_path)
        tool_result: dict[str, Any] = {"toolUseId": valid_call_id(result.id), "content": content or [dict(_EMPTY_TEXT)]}
        if result.is_error is not None and self._family.media_in_results:
            tool_result["status"] = "error" if result.is_error else "success"
        elif result.is_error:
            self._drop_policy.drop_hint(f"{path}.is_error")
        return [{"toolResult": tool_result}]

    def _result_part(self, part: Text | Image | File | Opaque, path: str) -> Blocks:
        """A part of a result, in which cache points and blank texts are refused: the result's own point stands behind it."""
        blocks = self.write_part(_without_cache_mark(part), path, from_assistant=False)
        return [block for block in blocks if not (block.get("text") or "x").isspace()]

    def _points_within(self, result: ToolResult, path: str) -> Blocks:
        """The cache point of the last marked part of a result, behind the whole result: its cache covers what the others would."""
        marked = [(index, part) for index, part in enumerate(result.parts) if not isinstance(part, Opaque) and CACHE_CONTROL in part.extra]
        if not marked:
            return []
        index, last = marked[-1]
        return cache_point(last.extra, "messages", f"{path}.content[{index}]", self._family, self._drop_policy)

    def _file(self, file: File, path: str) -> Blocks:
        with_citations = (
            self._family.is_claude and "citations" in file.extra and msgspec.json.decode(file.extra["citations"]) == _CITATIONS_ENABLED
        )
        blocks = self._media(write_document(file, self._document_names.unique_name(file.name), with_citations=with_citations), path)
        if blocks and "context" in file.extra:
            blocks[0]["document"]["context"] = file.extra["context"]
        return blocks

    def _media(self, written: dict[str, Any] | str, path: str) -> Blocks:
        if isinstance(written, dict):
            return [written]
        self._drop_policy.drop_or_refuse(path, written)
        return []

    def _opaque(self, part: Opaque, path: str) -> Blocks:
        if part.origin == NAME:
            return [write_opaque(part)]
        drop_opaque_part(part, path, self._drop_policy)
        return []

    def _drop_extra(
        self, part: Text | Reasoning | ToolCall | ToolResult | Image | File | Audio, path: str, *, from_assistant: bool
    ) -> None:
        written_keys = {CACHE_CONTROL}
        if isinstance(part, File):
            written_keys |= {"context", "citations"} if self._family.is_claude else {"context"}
        unwritten = {key: value for key, value in part.extra.items() if key not in written_keys}
        drop_part_fields(unwritten, path, self._drop_policy, from_assistant=from_assistant)


def _without_cache_mark(part: Text | Image | File | Opaque) -> Text | Image | File | Opaque:
    if isinstance(part, Opaque) or CACHE_CONTROL not in part.extra:
        return part
    return replace(part, extra={key: value for key, value in part.extra.items() if key != CACHE_CONTROL})
