"""What the sandbox says when nothing constrains it: that it is the sandbox, what it heard, and then pleasant nonsense."""

from collections.abc import Sequence
from random import Random

from app.local.sandbox import words
from app.local.sandbox.draft import Draft
from app.local.sandbox.tokens import count, split

OPENINGS = (
    "This is the Narthex sandbox: no model was asked.",
    "Hello from the Narthex sandbox, where words cost nothing.",
    "The Narthex sandbox answers; nobody thought about it.",
    "You have reached the Narthex sandbox.",
)
THOUGHTS = (
    "I am the sandbox, so I only pretend to think.",
    "There is no model here, which makes this easy.",
    "As the sandbox I have no opinion, so any answer will do.",
)


def babble(draft: Draft, heard: str, saw: Sequence[str], tokens: int | None) -> None:
    """An answer in words: two to five sentences of nonsense, or exactly so many tokens in all."""
    draft.choose(OPENINGS)
    if heard:
        draft.write(f" You said: “{excerpt(heard)}”.")
    if saw:
        draft.write(f" With it came {', '.join(saw)}.")
    if tokens is None:
        for _ in range(draft.rng.randint(2, 5)):
            sentence(draft)
        return
    while count(draft.text()) < tokens:
        for _ in range(1 + (tokens - count(draft.text())) // 20):
            sentence(draft)
    draft.cut("".join(split(draft.text())[:tokens]))


def think(rng: Random, heard: str) -> str:
    """Reasoning for those who asked for some."""
    draft = Draft(rng)
    draft.write(f"The user says “{excerpt(heard)}”. " if heard else "The user says nothing. ")
    draft.choose(THOUGHTS)
    sentence(draft)
    return draft.text()


def sentence(draft: Draft) -> None:
    draft.write(" ")
    for slot in (words.SUBJECTS, words.VERBS, words.OBJECTS):
        draft.choose(slot)
        draft.write(" ")
    draft.choose(words.ENDINGS)
    draft.write(".")


def excerpt(heard: str) -> str:
    """The first 60 characters on one line: enough to see which message was answered."""
    line = " ".join(heard[:400].split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"
