"""Messages as contents of a user and a model, with instructions apart; what they cannot express is dropped or refused.

Sources: https://ai.google.dev/api/caching#Content, https://ai.google.dev/gemini-api/docs/function-calling and .../thought-signatures,
read 2026-11; recordings google_ai_studio/02, gcp_vertex_gemini/01 and 06.
"""

from collections.abc import Sequence
from typing import Any, assert_never

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
from providers.canonical.tool_calls import write_call_input
from providers.dialects.gemini.media import write_media
from providers.dialects.gemini.opaque_parts import NAME, write_opaque_part
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names
from providers.profiles.gemini import GeminiProfile
from providers.unsupported import REASONING_SIGNATURE, drop_opaque_part, drop_part_fields

Part = dict[str, Any]

# Takes the place of a signature on calls that no Gemini made: models that require a signature accept it.
# Source: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs, read 2026-11.
SKIP_SIGNATURE = "skip_thought_signature_validator"


class Contents:
    """The conversation of a chat."""

    def __init__(self, chat: ChatRequest, profile: GeminiProfile, drop_policy: DropPolicy) -> None:
        self.instructions: list[Part] = []  # the parts of systemInstruction
        self.turns: list[dict[str, Any]] = []  # the contents, in order
        self._result_turn: dict[str, Any] = {}
        self._profile = profile
        self._is_native = chat.origin == NAME
        self._drop_policy = drop_policy
        # A result names its function; other APIs give the id of the call. Some engines repeat ids in each turn (call_0): such an id
        # means the latest call before the result.
        self._function_names: dict[str, str] = {}
        for index, message in enumerate(write_participant_names(chat.messages, drop_policy)):
            self._function_names.update({part.id: part.name for part in message.parts if isinstance(part, ToolCall)})
            self._add_message(message, f"messages[{index}]")
        if not self.turns and self.instructions:
            # Contents must not be empty: the last instruction becomes the user's.
            self.turns.append({"role": "user", "parts": [self.instructions.pop()]})

    def _add_message(self, message: Message, path: str) -> None:
        from_assistant = message.role == "assistant"
        drop_part_fields(message.extra, path, self._drop_policy, from_assistant=from_assistant)
        located_parts = [(part, f"{path}.content[{index}]") for index, part in enumerate(message.parts)]
        match message.role:
            case "system" | "developer":
                self._add_instructions(located_parts, path)
            case "assistant":
                self._add_turn("model", self._model_parts(located_parts))
            case "user":
                self._add_user_message(located_parts)

    def _add_instructions(self, located_parts: Sequence[tuple[Content, str]], path: str) -> None:
        """An instruction from the middle of a conversation moves to the beginning, which is reported."""
        if self.turns:
            self._drop_policy.drop_hint(f"{path}.role")
        for part, part_path in located_parts:
            if isinstance(part, Text | Refusal):
                self.instructions += self._text(part, part_path)
            elif isinstance(part, Opaque):
                self._opaque(part, part_path)
            else:
                self._drop_policy.drop_or_refuse(part_path, "its instructions are text alone.")

    def _add_user_message(self, located_parts: Sequence[tuple[Content, str]]) -> None:
        """The results of one turn share a content that holds nothing else: Gemini counts them against the calls."""
        others: list[Part] = []
        for part, part_path in located_parts:
            if isinstance(part, ToolResult):
                self._result(part, part_path, others)
            else:
                others += self._user_parts(part, part_path)
        if others or not located_parts:
            self._add_turn("user", others or [{"text": ""}])

    def _add_turn(self, role: str, parts: list[Part]) -> None:
        """Joins consecutive messages of the model: Gemini counts the results against the calls of one content."""
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
                if not self._is_native:
                    drop_part_fields(part.extra, path, self._drop_policy)
                media = write_media(part, path, self._drop_policy)
                return [] if media is None else [{**media, **(part.extra if self._is_native else {})}]
            case Opaque():
                return self._opaque(part, path)
            case Reasoning() | ToolCall() | ToolResult():
                self._drop_policy.drop_or_refuse(path, "a message of this role cannot hold it.")
                return []
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, following: list[Part]) -> None:
        """Adds a tool result to the turn of results.

        The results of models before Gemini 3 hold no media, which are added to `following`, the content after the results.
        """
        drop_part_fields(result.extra, path, self._drop_policy)
        texts: list[str] = []
        media: list[Part] = []
        for index, part in enumerate(result.parts):
            part_path = f"{path}.content[{index}]"
            if isinstance(part, Text):
                drop_part_fields(part.extra, part_path, self._drop_policy)
                texts.append(part.text)
            else:
                media += self._user_parts(part, part_path)
        name = self._function_names.get(result.id)
        if name is None:
            self._drop_policy.drop_or_refuse(
                path, f"it needs the function's name, and no call in this conversation has the id {result.id!r:.60}."
            )
            return
        if media and not self._profile.media_in_results:
            following += [{"text": f"From the result of tool call {result.id}:"}, *media]
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

    def _model_parts(self, located_parts: Sequence[tuple[Content, str]]) -> list[Part]:
        """Writes the parts of the model's turn. The `signature` below is that of the text that follows; it is written without text if none
        follows.
        """
        written: list[Part] = []
        signature: str | None = None
        for part, path in located_parts:
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
                    self._drop_policy.drop_or_refuse(path, "a message of this role cannot hold it.")
                case _:
                    assert_never(part)
        if signature is not None:
            written.append({"text": "", "thoughtSignature": signature})
        first_call = next((part for part in written if "functionCall" in part), None)
        if self._profile.requires_signatures and first_call is not None and "thoughtSignature" not in first_call:
            first_call["thoughtSignature"] = SKIP_SIGNATURE
        return written

    def _reasoning(self, part: Reasoning, written: list[Part]) -> str | None:
        """Returns the signature of the text that follows, for reasoning without text. Thoughts without a signature are not sent back."""
        if part.opaque_state is None or part.opaque_state.origin != NAME:
            if part.opaque_state is not None:
                self._drop_policy.drop_hint(REASONING_SIGNATURE)
            if part.text:
                self._drop_policy.drop_hint("reasoning")
            return None
        if not part.text:
            return part.opaque_state.data
        written.append({"text": part.text, "thought": True, "thoughtSignature": part.opaque_state.data})
        return None

    def _call(self, call: ToolCall, path: str) -> list[Part]:
        drop_part_fields(call.extra, path, self._drop_policy, from_assistant=True)
        part: Part = {"functionCall": {"id": call.id, "name": call.name, "args": write_call_input(call.arguments, custom=call.custom)}}
        if call.opaque_state is not None and call.opaque_state.origin == NAME:
            part["thoughtSignature"] = call.opaque_state.data
        elif call.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        return [part]

    def _text(self, part: Text | Refusal, path: str, *, from_assistant: bool = False) -> list[Part]:
        if isinstance(part, Text):
            if part.citations:
                self._drop_policy.drop_hint(f"{path}.citations")
            if self._is_native:
                return [{"text": part.text, **part.extra}] if part.text or not from_assistant else []
            drop_part_fields(part.extra, path, self._drop_policy, from_assistant=from_assistant)
        return [{"text": part.text}] if part.text or not from_assistant else []

    def _opaque(self, part: Opaque, path: str) -> list[Part]:
        if part.origin == NAME:
            return [write_opaque_part(part)]
        drop_opaque_part(part, path, self._drop_policy)
        return []
