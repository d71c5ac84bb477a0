"""Messages as contents of a user and a model, with instructions apart, and what cannot be said there of them.

Sources: https://ai.google.dev/api/caching#Content, https://ai.google.dev/gemini-api/docs/function-calling and .../thought-signatures,
read 2026-11; recordings google_ai_studio/02, gcp_vertex_gemini/01 and 06.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Content,
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import DropPolicy
from providers.dialects.gemini.media import write_media
from providers.dialects.gemini.opaque_parts import NAME, kind_of, write_opaque_part
from providers.profiles.gemini import GeminiProfile

Part = dict[str, Any]

_object = msgspec.json.Decoder(dict[str, Raw])

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_REASONING_BLOCK_TYPES = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})
# What stands for a signature on calls that no Gemini made, which models that demand one let pass.
# Source: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs, read 2026-11.
_SKIP_SIGNATURE = "skip_thought_signature_validator"


class Contents:
    """`instructions`: the parts of systemInstruction; `turns`: what was said, in order."""

    def __init__(self, chat: ChatRequest, rules: GeminiProfile, drop_policy: DropPolicy) -> None:
        self.instructions: list[Part] = []
        self.turns: list[dict[str, Any]] = []
        self._result_turn: dict[str, Any] = {}
        self._profile = rules
        self._drop_policy = drop_policy
        # It says of a result which function gave it; what other APIs say is which call asked for it. Ids that some engines give out
        # anew in each turn (call_0) are those of the call before.
        self._function_names: dict[str, str] = {}
        for index, message in enumerate(chat.messages):
            self._function_names.update({part.id: part.name for part in message.parts if isinstance(part, ToolCall)})
            self._add_message(message, f"messages[{index}]")
        if not self.turns and self.instructions:
            # It answers contents alone: the last of the instructions is what there is to answer.
            self.turns.append({"role": "user", "parts": [self.instructions.pop()]})

    def _add_message(self, message: Message, path: str) -> None:
        from_assistant = message.role == "assistant"
        if message.name is not None:
            self._drop_policy.drop_or_refuse(f"{path}.name", "its contents name no participants.")
        self._drop_extra(message.extra, path, from_assistant=from_assistant)
        located_parts = [(part, f"{path}.content[{index}]") for index, part in enumerate(message.parts)]
        match message.role:
            case "system" | "developer":
                self._add_instructions(located_parts, path)
            case "assistant":
                self._add_turn(
                    "model", self._model_parts([part for part, _ in located_parts], [part_path for _, part_path in located_parts])
                )
            case "user":
                self._add_user_message(located_parts)

    def _add_instructions(self, located_parts: Sequence[tuple[Content, str]], path: str) -> None:
        """They stand before all else: an instruction from the middle of a conversation moves there, and that is reported."""
        if self.turns:
            self._drop_policy.drop_hint(f"{path}.role")
        for part, part_path in located_parts:
            if isinstance(part, Text | Refusal):
                self.instructions += self._text(part, part_path)
            elif isinstance(part, Opaque):
                self._opaque(part, part_path)
            else:
                self._drop_policy.drop_or_refuse(part_path, "its instructions are text.")

    def _add_user_message(self, located_parts: Sequence[tuple[Content, str]]) -> None:
        """Results of one turn stand together, as many as its calls, in a content that has nothing else."""
        others: list[Part] = []
        for part, part_path in located_parts:
            if isinstance(part, ToolResult):
                self._result(part, part_path, others)
            else:
                others += self._user_parts(part, part_path)
        if others or not located_parts:
            self._add_turn("user", others or [{"text": ""}])

    def _add_turn(self, role: str, parts: list[Part]) -> None:
        """What a model said at one time stands together: its results are counted against its calls."""
        if not parts:
            return
        if role == "model" and self.turns and self.turns[-1]["role"] == role:
            self.turns[-1]["parts"] += parts
        else:
            self.turns.append({"role": role, "parts": parts})

    def _user_parts(self, part: Content, path: str) -> list[Part]:
        match part:
            case Text() | Refusal():
                return self._text(part, path)
            case Image() | File() | Audio():
                self._drop_extra(part.extra, path)
                media = write_media(part, path, self._drop_policy)
                return [] if media is None else [media]
            case Opaque():
                return self._opaque(part, path)
            case Reasoning() | ToolCall() | ToolResult():
                self._drop_policy.drop_or_refuse(path, "it has no place for it in what a user says.")
                return []
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, deferred: list[Part]) -> None:
        """`rest`: what follows the results; before Gemini 3 their media, which have no place in them."""
        self._drop_extra(result.extra, path)
        texts: list[str] = []
        media: list[Part] = []
        for index, part in enumerate(result.parts):
            part_path = f"{path}.content[{index}]"
            if isinstance(part, Text):
                self._drop_extra(part.extra, part_path)
                texts.append(part.text)
            else:
                media += self._user_parts(part, part_path)
        name = self._function_names.get(result.id)
        if name is None:
            self._drop_policy.drop_or_refuse(
                path, f"it wants the function's name, and no call in this conversation has the id {result.id!r:.60}."
            )
            return
        if media and not self._profile.media_in_results:
            deferred += [{"text": f"From the result of tool call {result.id}:"}, *media]
            media = []
            texts = texts or ["The result follows."]
        response = {"error" if result.is_error else "output": "\n".join(texts)} if texts or not media else {}
        function_response: Part = {"id": result.id, "name": name, "response": response}
        if media:
            function_response["parts"] = media
        if not self.turns or self.turns[-1] is not self._result_turn:
            self._result_turn = {"role": "user", "parts": []}
            self.turns.append(self._result_turn)
        self._result_turn["parts"].append({"functionResponse": function_response})

    def _model_parts(self, parts: Sequence[Content], paths: Sequence[str]) -> list[Part]:
        written: list[Part] = []
        signature: str | None = None
        for part, path in zip(parts, paths, strict=True):
            if signature is not None and not (isinstance(part, Text) and part.text):
                written.append({"text": "", "thoughtSignature": signature})
                signature = None
            match part:
                case Text() | Refusal():
                    texts = self._text(part, path, from_assistant=True)
                    if signature is not None:
                        texts[0]["thoughtSignature"], signature = signature, None
                    written += texts
                case Reasoning():
                    signature = self._reasoning(part, written)
                case ToolCall():
                    written += self._call(part, path)
                case Opaque():
                    written += self._opaque(part, path)
                case Image() | File() | Audio() | ToolResult():
                    self._drop_policy.drop_or_refuse(path, "it has no place for it in what a model said.")
                case _:
                    assert_never(part)
        if signature is not None:
            written.append({"text": "", "thoughtSignature": signature})
        first_call = next((part for part in written if "functionCall" in part), None)
        if self._profile.requires_signatures and first_call is not None and "thoughtSignature" not in first_call:
            first_call["thoughtSignature"] = _SKIP_SIGNATURE
        return written

    def _reasoning(self, part: Reasoning, written: list[Part]) -> str | None:
        """The signature of the text that follows, if that is what it is. Thoughts without one Google does not want back."""
        if part.opaque_state is None or part.opaque_state.origin != NAME:
            if part.opaque_state is not None:
                self._drop_policy.drop_hint("reasoning.seal")
            if part.text:
                self._drop_policy.drop_hint("reasoning")
            return None
        if not part.text:
            return part.opaque_state.data
        written.append({"text": part.text, "thought": True, "thoughtSignature": part.opaque_state.data})
        return None

    def _call(self, call: ToolCall, path: str) -> list[Part]:
        """Arguments that are no object it could not read: what a model wrote instead is put into one, whole."""
        if call.custom:
            self._drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
            return []
        self._drop_extra(call.extra, path, from_assistant=True)
        try:
            arguments: Any = _object.decode(call.arguments or "{}")
        except DECODE_ERRORS:
            arguments = {"_unparsed": call.arguments}
        part: Part = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
        if call.opaque_state is not None and call.opaque_state.origin == NAME:
            part["thoughtSignature"] = call.opaque_state.data
        elif call.opaque_state is not None:
            self._drop_policy.drop_hint("reasoning.seal")
        return [part]

    def _text(self, part: Text | Refusal, path: str, *, from_assistant: bool = False) -> list[Part]:
        if isinstance(part, Text):
            if part.citations:
                self._drop_policy.drop_hint(f"{path}.citations")
            self._drop_extra(part.extra, path, from_assistant=from_assistant)
        return [{"text": part.text}] if part.text or not from_assistant else []

    def _opaque(self, part: Opaque, path: str) -> list[Part]:
        if part.origin == NAME:
            return [write_opaque_part(part)]
        kind = kind_of(part)
        if kind in _REASONING_BLOCK_TYPES:
            self._drop_policy.drop_hint("reasoning.seal")
        else:
            self._drop_policy.drop_or_refuse(path, f"only {part.origin:.40} has {kind or 'it':.40}.")
        return []

    def _drop_extra(self, extra: Mapping[str, Raw], path: str, *, from_assistant: bool = False) -> None:
        """`given_back`: by an assistant, it asks for nothing."""
        for key, value in extra.items():
            if from_assistant:
                self._drop_policy.drop_hint(f"{path}.{key}")
            else:
                self._drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")
