"""Messages as contents of a user and a model, with instructions apart, and what cannot be said there of them.

Sources: https://ai.google.dev/api/caching#Content, https://ai.google.dev/gemini-api/docs/function-calling and .../thought-signatures,
read 2026-11; recordings google_ai_studio/02, gcp_vertex_gemini/01 and 06.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.chat import (
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
from providers.dialect import Concessions
from providers.dialects.gemini.kinds import NAME, as_told, kind_of
from providers.dialects.gemini.models import Rules
from providers.dialects.gemini.parts import write_media
from providers.wire import UNREADABLE

Part = dict[str, Any]

_object = msgspec.json.Decoder(dict[str, Raw])

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_SEALED = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})
# What stands for a signature on calls that no Gemini made, which models that demand one let pass.
# Source: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs, read 2026-11.
_UNSIGNED = "skip_thought_signature_validator"


class Contents:
    """`instructions`: the parts of systemInstruction; `turns`: what was said, in order."""

    def __init__(self, chat: ChatRequest, rules: Rules, concessions: Concessions) -> None:
        self.instructions: list[Part] = []
        self.turns: list[dict[str, Any]] = []
        self._results: dict[str, Any] = {}
        self._rules = rules
        self._concessions = concessions
        # It says of a result which function gave it; what other APIs say is which call asked for it. Ids that some engines give out
        # anew in each turn (call_0) are those of the call before.
        self._names: dict[str, str] = {}
        for at, message in enumerate(chat.messages):
            self._names.update({part.id: part.name for part in message.parts if isinstance(part, ToolCall)})
            self._message(message, f"messages[{at}]")
        if not self.turns and self.instructions:
            # It answers contents alone: the last of the instructions is what there is to answer.
            self.turns.append({"role": "user", "parts": [self.instructions.pop()]})

    def _message(self, message: Message, path: str) -> None:
        given_back = message.role == "assistant"
        if message.name is not None:
            self._concessions.without(f"{path}.name", "its contents name no participants.")
        self._extra(message.extra, path, given_back=given_back)
        told = [(part, f"{path}.content[{at}]") for at, part in enumerate(message.parts)]
        match message.role:
            case "system" | "developer":
                self._instruct(told, path)
            case "assistant":
                self._say("model", self._answered([part for part, _ in told], [where for _, where in told]))
            case "user":
                self._asked(told)

    def _instruct(self, told: Sequence[tuple[Content, str]], path: str) -> None:
        """They stand before all else: an instruction from the middle of a conversation moves there, and that is reported."""
        if self.turns:
            self._concessions.hint(f"{path}.role")
        for part, where in told:
            if isinstance(part, Text | Refusal):
                self.instructions += self._text(part, where)
            elif isinstance(part, Opaque):
                self._opaque(part, where)
            else:
                self._concessions.without(where, "its instructions are text.")

    def _asked(self, told: Sequence[tuple[Content, str]]) -> None:
        """Results of one turn stand together, as many as its calls, in a content that has nothing else."""
        rest: list[Part] = []
        for part, where in told:
            if isinstance(part, ToolResult):
                self._result(part, where, rest)
            else:
                rest += self._of_user(part, where)
        if rest or not told:
            self._say("user", rest or [{"text": ""}])

    def _say(self, role: str, parts: list[Part]) -> None:
        """What a model said at one time stands together: its results are counted against its calls."""
        if not parts:
            return
        if role == "model" and self.turns and self.turns[-1]["role"] == role:
            self.turns[-1]["parts"] += parts
        else:
            self.turns.append({"role": role, "parts": parts})

    def _of_user(self, part: Content, path: str) -> list[Part]:
        match part:
            case Text() | Refusal():
                return self._text(part, path)
            case Image() | File() | Audio():
                self._extra(part.extra, path)
                media = write_media(part, path, self._concessions)
                return [] if media is None else [media]
            case Opaque():
                return self._opaque(part, path)
            case Reasoning() | ToolCall() | ToolResult():
                self._concessions.without(path, "it has no place for it in what a user says.")
                return []
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, rest: list[Part]) -> None:
        """`rest`: what follows the results; before Gemini 3 their media, which have no place in them."""
        self._extra(result.extra, path)
        texts: list[str] = []
        media: list[Part] = []
        for at, part in enumerate(result.parts):
            where = f"{path}.content[{at}]"
            if isinstance(part, Text):
                self._extra(part.extra, where)
                texts.append(part.text)
            else:
                media += self._of_user(part, where)
        name = self._names.get(result.id)
        if name is None:
            self._concessions.without(path, f"it wants the function's name, and no call in this conversation has the id {result.id!r:.60}.")
            return
        if media and not self._rules.shows:
            rest += [{"text": f"From the result of tool call {result.id}:"}, *media]
            media = []
            texts = texts or ["The result follows."]
        response = {"error" if result.is_error else "output": "\n".join(texts)} if texts or not media else {}
        told: Part = {"id": result.id, "name": name, "response": response}
        if media:
            told["parts"] = media
        if not self.turns or self.turns[-1] is not self._results:
            self._results = {"role": "user", "parts": []}
            self.turns.append(self._results)
        self._results["parts"].append({"functionResponse": told})

    def _answered(self, parts: Sequence[Content], paths: Sequence[str]) -> list[Part]:
        told: list[Part] = []
        signature: str | None = None
        for part, path in zip(parts, paths, strict=True):
            if signature is not None and not (isinstance(part, Text) and part.text):
                told.append({"text": "", "thoughtSignature": signature})
                signature = None
            match part:
                case Text() | Refusal():
                    texts = self._text(part, path, given_back=True)
                    if signature is not None:
                        texts[0]["thoughtSignature"], signature = signature, None
                    told += texts
                case Reasoning():
                    signature = self._reasoning(part, told)
                case ToolCall():
                    told += self._call(part, path)
                case Opaque():
                    told += self._opaque(part, path)
                case Image() | File() | Audio() | ToolResult():
                    self._concessions.without(path, "it has no place for it in what a model said.")
                case _:
                    assert_never(part)
        if signature is not None:
            told.append({"text": "", "thoughtSignature": signature})
        called = next((part for part in told if "functionCall" in part), None)
        if self._rules.signs and called is not None and "thoughtSignature" not in called:
            called["thoughtSignature"] = _UNSIGNED
        return told

    def _reasoning(self, part: Reasoning, told: list[Part]) -> str | None:
        """The signature of the text that follows, if that is what it is. Thoughts without one Google does not want back."""
        if part.seal is None or part.seal.origin != NAME:
            if part.seal is not None:
                self._concessions.hint("reasoning.seal")
            if part.text:
                self._concessions.hint("reasoning")
            return None
        if not part.text:
            return part.seal.data
        told.append({"text": part.text, "thought": True, "thoughtSignature": part.seal.data})
        return None

    def _call(self, call: ToolCall, path: str) -> list[Part]:
        """Arguments that are no object it could not read: what a model wrote instead is put into one, whole."""
        if call.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return []
        self._extra(call.extra, path, given_back=True)
        try:
            arguments: Any = _object.decode(call.arguments or "{}")
        except UNREADABLE:
            arguments = {"_unparsed": call.arguments}
        part: Part = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
        if call.seal is not None and call.seal.origin == NAME:
            part["thoughtSignature"] = call.seal.data
        elif call.seal is not None:
            self._concessions.hint("reasoning.seal")
        return [part]

    def _text(self, part: Text | Refusal, path: str, *, given_back: bool = False) -> list[Part]:
        if isinstance(part, Text):
            if part.citations:
                self._concessions.hint(f"{path}.citations")
            self._extra(part.extra, path, given_back=given_back)
        return [{"text": part.text}] if part.text or not given_back else []

    def _opaque(self, part: Opaque, path: str) -> list[Part]:
        if part.origin == NAME:
            return [as_told(part)]
        kind = kind_of(part)
        if kind in _SEALED:
            self._concessions.hint("reasoning.seal")
        else:
            self._concessions.without(path, f"only {part.origin:.40} has {kind or 'it':.40}.")
        return []

    def _extra(self, extra: Mapping[str, Raw], path: str, *, given_back: bool = False) -> None:
        """`given_back`: by an assistant, it asks for nothing."""
        for key, value in extra.items():
            if given_back:
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
