"""Text without a constraint: that this is the sandbox, an excerpt of the user's message, and random sentences."""

from collections.abc import Sequence
from random import Random

from app.sandbox.text import vocabulary
from app.sandbox.text.draft import Draft
from app.sandbox.text.tokens import count_tokens, split_tokens

OPENINGS = (
    "This is the Narthex sandbox: no model was used.",
    "Hello from the Narthex sandbox, where words cost nothing.",
    "The Narthex sandbox answers; nobody thought about it.",
    "You have reached the Narthex sandbox.",
)
THOUGHTS = (
    "I am the sandbox, so I only pretend to think.",
    "There is no model here, which makes this easy.",
    "As the sandbox I have no opinion, so any answer will do.",
)


def write_random_text(draft: Draft, user_text: str, media_descriptions: Sequence[str], tokens: int | None, min_tokens: int = 0) -> None:
    """Writes two to five random sentences, and more until there are `min_tokens` tokens; or exactly `tokens` tokens in all."""
    draft.choose(OPENINGS)
    if user_text:
        draft.write(f" You said: “{excerpt(user_text)}”.")
    if media_descriptions:
        draft.write(f" With it came {', '.join(media_descriptions)}.")
    if tokens is None:
        for _ in range(draft.rng.randint(2, 5)):
            write_sentence(draft)
    least_tokens = min_tokens if tokens is None else tokens
    while (missing := least_tokens - count_tokens(draft.text())) > 0:
        for _ in range(1 + missing // 20):
            write_sentence(draft)
    if tokens is not None:
        draft.truncate_to("".join(split_tokens(draft.text())[:tokens]))


def write_reasoning(rng: Random, user_text: str) -> str:
    """Random reasoning."""
    draft = Draft(rng)
    draft.write(f"The user says “{excerpt(user_text)}”. " if user_text else "The user says nothing. ")
    draft.choose(THOUGHTS)
    write_sentence(draft)
    return draft.text()


def write_sentence(draft: Draft) -> None:
    draft.write(" ")
    for slot in (vocabulary.SUBJECTS, vocabulary.VERBS, vocabulary.OBJECTS):
        draft.choose(slot)
        draft.write(" ")
    draft.choose(vocabulary.ENDINGS)
    draft.write(".")


def excerpt(user_text: str) -> str:
    """The first 60 characters on one line: enough to recognise the message."""
    line = " ".join(user_text[:400].split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"
