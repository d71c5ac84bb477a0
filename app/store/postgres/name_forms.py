"""Names of teams, models and the like that cannot be told apart, or that no path can name: they are refused where something new gets one.

What has such a name already keeps it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

# Letters that look like Latin ones in nearly every font. Source: https://www.unicode.org/Public/security/latest/confusables.txt (Unicode
# Technical Standard 39), read 2026-11; of Cyrillic, Greek and Armenian, which people write, those that look the same.
_LATIN_BY_LOOK = str.maketrans(
    "\u0430\u0441\u0501\u0435\u0455\u0456\u0458\u04bb\u043e\u0440\u0445\u0443\u051b\u051d\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a"
    "\u041c\u041e\u0420\u0405\u0422\u0425\u04ae\u03bf\u03b1\u03bd\u03b9\u03c1\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f"
    "\u03a1\u03a4\u03a5\u03a7\u0585\u057d\u0570\u0578\u04cf\u0261\u0131\u03f2\u2010\u2011\u2212",
    "acdesijhopxyqwABCEHIJKMOPSTXYoavipABEZHIKMNOPTYXouhnlgic---",
)
# Printable characters of which nothing is seen: fillers, joiners, the empty Braille pattern and selectors of variants.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_PATH_DOTS = (".", "..")


def check_form(name: str) -> str | None:
    """Returns what is wrong with the form of a new name, or None if nothing is."""
    if name in _PATH_DOTS:
        return f"{name!r} cannot be a name: clients and proxies take it out of a path."
    if not unicodedata.is_normalized("NFC", name):
        return f"the name {name!r:.60} is not in Unicode's normal form C, in which the same text is written in one way: send it so."
    return None


def find_homograph(name: str, others: Iterable[str]) -> str | None:
    """Returns another of the names that looks the same, or None if there is none."""
    return next((other for _, other in find_homographs([name], others)), None)


def find_homographs(new: Iterable[str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each new name that looks like another of the names, with that one."""
    by_look: dict[str, set[str]] = {}
    for each in names:
        by_look.setdefault(_look(each), set()).add(each)
    for name in new:
        for other in by_look.get(_look(name), set()) - {name}:
            yield name, other


def looks_like_ascii(name: str) -> bool:
    """Whether the name, which is not of ASCII, looks like one that is."""
    return not name.isascii() and _look(name).isascii()


def explain_homograph(name: str, other: str) -> str:
    return f"the name {name!a:.200} looks like {other!a:.200}, which is another: whoever reads it would take one for the other."


def _look(name: str) -> str:
    """The same for names that look the same. Names of ASCII, as nearly all, are as they look."""
    if name.isascii():
        return name
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", name)).translate(_LATIN_BY_LOOK)
