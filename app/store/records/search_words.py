"""Words of full-text search, the same in any database: what a text and a search for it consist of.

A word is a run of letters and digits, whatever its case. Chinese, Japanese and Korean are not written in words: of a run of their
characters every two neighbours are one.
"""

import re
import unicodedata

from app.domain.errors import InvalidKeyField

MAX_SEARCH_CHARACTERS = 400
_MAX_SEARCH_WORDS = 50

_SEPARATOR = re.compile(r"[^\w ]|_")
_ASCII = bytes(ord(character.lower()) if (character := chr(code)).isalnum() and code < 128 else 32 for code in range(256))
_CJK = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_RUN = re.compile(f"[{_CJK}]+")
_PHRASE_OR_WORD = re.compile(r'(-?)"([^"]*)"?|(\S+)')


def split_words(text: str) -> str:
    """The words of a text, with spaces between them: Postgres's parser takes just these for words, whatever its locale."""
    if text.isascii():
        return text.encode().translate(_ASCII).decode()
    return _CJK_RUN.sub(_pairs, _SEPARATOR.sub(" ", unicodedata.normalize("NFKC", text).casefold()))


def read_search(text: str) -> str:
    """A search, such as `refund "late delivery" or delay -test`, for websearch_to_tsquery. Raises InvalidKeyField."""
    if len(text) > MAX_SEARCH_CHARACTERS:
        raise InvalidKeyField("text", f"`text` may have {MAX_SEARCH_CHARACTERS} characters, not {len(text)}.")
    parts: list[str] = []
    count, after_or = 0, False
    for minus, phrase, word in _PHRASE_OR_WORD.findall(text):
        if word.lower() == "or":
            after_or = True
            continue
        words = split_words(word or phrase).split()
        if not words:
            continue
        if after_or and parts:
            parts.append("or")
        after_or = False
        is_unwanted = bool(minus) or word.startswith("-")
        parts.append(f'{"-" * is_unwanted}"{" ".join(words)}"')
        count += len(words)
    if not parts:
        raise InvalidKeyField("text", "`text` must have a word to search for: at least one letter or digit.")
    if count > _MAX_SEARCH_WORDS:
        raise InvalidKeyField("text", f"`text` may have {_MAX_SEARCH_WORDS} words, not {count}.")
    return " ".join(parts)


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    return f" {' '.join(pairs)} "
