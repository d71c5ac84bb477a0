"""The order in which strict chat templates take messages: instructions first or nowhere, users and assistants in turn.

Templates of Qwen3.5 and later take instructions in one first message alone; those of Mistral and Llama 2 also want users and assistants in
turn; those of Gemma 1 and 2 and of Mistral 7B know no instructions at all. What stands elsewhere keeps its words and its place, and
changes its role: instructions become marked texts of the user's. Sources: providers/canonical/template_errors.py.
"""

from collections.abc import Sequence
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from providers.canonical.template_errors import TemplateRule

Kind = Literal["instruction", "user", "results", "assistant", "other"]
"""`results`: of tools, with what the user says beside them in dialects where that is one message. `other`: a part of a response."""

# What is said where a template wants a turn that nobody took: Mistral's wants a response between results and the next message of the
# user's (NousResearch/hermes-agent#20154, read 2026-11), and all of them begin with the user.
RESULTS_WERE_READ = "I have the results."
BEGINNING = "<system>\nThe conversation begins with the assistant's message.\n</system>"

M = TypeVar("M")


class Shape(Protocol[M]):
    """Messages of one dialect."""

    @property
    def joins_results(self) -> bool:
        """Whether a message that holds results may hold what the user says, too."""
        ...

    def kind(self, message: M) -> Kind: ...

    def as_leading(self, message: M) -> M:
        """An instruction under the role that all templates know."""
        ...

    def mark(self, message: M) -> M:
        """An instruction as the user's message, whose texts say what they are."""
        ...

    def merge(self, first: M, second: M) -> M:
        """Two messages of the same role as one, their texts apart by a blank line."""
        ...

    def split_results(self, message: M) -> tuple[M, M | None]:
        """The results, and what the user says beside them."""
        ...

    def say(self, role: Literal["user", "assistant"], text: str) -> M: ...


class OrderedTurns(Struct, Generic[M]):
    """The messages in an order that the host takes."""

    messages: list[M]
    indexes: list[int]  # for each message, the index of the first of those that it was made of
    changed: list[int]  # indexes of messages that were said in another role or joined another message


class _Turn(Struct, Generic[M]):
    index: int
    kind: Kind
    message: M
    is_marked: bool = False


def order_turns(messages: Sequence[M], shape: Shape[M], rule: TemplateRule) -> OrderedTurns[M] | None:
    """The messages as a template with this rule takes them; None: it takes them as they are."""
    turns = _Turns(shape, must_alternate=rule != "leading_instructions")
    first_turn = 0
    if rule != "no_instructions":
        first_turn = next((at for at, each in enumerate(messages) if shape.kind(each) != "instruction"), len(messages))
    for index, message in enumerate(messages[:first_turn]):
        turns.add_leading(index, message)
    for index, message in enumerate(messages[first_turn:], first_turn):
        turns.add(index, message)
    turns.end()
    if not turns.is_changed:
        return None
    return OrderedTurns([each.message for each in turns.out], [each.index for each in turns.out], sorted(turns.changed))


class _Turns(Generic[M]):
    """Puts messages in order, one after the other."""

    def __init__(self, shape: Shape[M], *, must_alternate: bool) -> None:
        self._shape = shape
        self._must_alternate = must_alternate
        self._held: list[_Turn[M]] = []  # instructions that wait until the results before or behind them are all there
        self.out: list[_Turn[M]] = []
        self.changed: set[int] = set()
        self.is_changed = False

    def add_leading(self, index: int, message: M) -> None:
        leading = self._shape.as_leading(message)
        self.is_changed = self.is_changed or leading is not message or bool(self.out)
        if not self.out:
            self.out.append(_Turn(index, "instruction", leading))
            return
        self._merge_into_last(leading)
        self.changed.add(index)

    def add(self, index: int, message: M) -> None:
        kind = self._shape.kind(message)
        if kind == "instruction":
            self._held.append(_Turn(index, "user", self._shape.mark(message), is_marked=True))
            self._note_change(index)
            return
        if kind != "results":
            self.end()
        self._append(_Turn(index, kind, message))

    def end(self) -> None:
        for turn in self._held:
            self._append(turn)
        self._held = []

    def _append(self, turn: _Turn[M]) -> None:
        last = self.out[-1] if self.out else None
        if self._must_alternate and turn.kind in ("assistant", "other") and (last is None or last.kind == "instruction"):
            self._insert("user", BEGINNING, turn.index)
            last = None
        text: M | None = None
        if self._must_alternate and turn.kind == "results":
            turn.message, text = self._shape.split_results(turn.message)
        if last is not None and self._joins(last, turn):
            self._merge_into_last(turn.message)
            if not last.is_marked:
                self._note_change(turn.index)
            last.is_marked, self.is_changed = False, True
        elif last is not None and self._must_alternate and last.kind == "results" and turn.kind == "user":
            self._insert("assistant", RESULTS_WERE_READ, turn.index)
            self.out.append(turn)
        else:
            self.out.append(turn)
        if text is not None:
            self._append(_Turn(turn.index, "user", text))

    def _joins(self, last: _Turn[M], turn: _Turn[M]) -> bool:
        if turn.kind == "user" and last.kind == "user":
            return self._must_alternate or turn.is_marked or last.is_marked
        if turn.kind == "user" and last.kind == "results":
            return turn.is_marked and self._shape.joins_results and not self._must_alternate
        return self._must_alternate and turn.kind == last.kind and (turn.kind == "assistant" or self._shape.joins_results)

    def _merge_into_last(self, message: M) -> None:
        self.out[-1].message = self._shape.merge(self.out[-1].message, message)

    def _insert(self, role: Literal["user", "assistant"], text: str, index: int) -> None:
        self.out.append(_Turn(index, role, self._shape.say(role, text)))
        self._note_change(index)

    def _note_change(self, index: int) -> None:
        self.changed.add(index)
        self.is_changed = True
