"""Built-in detectors of the content policy `masked`: where text holds an address, a number or a key that should not be recorded.

All work on UTF-8, in time that grows with the text and no faster, and check what they find: a card number by Luhn, an IBAN by its length
and its check digits. They find what is written as usual, and no more: what they cannot see is listed in docs/privacy.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from app.domain.callers import Detector
from app.recording.content.number_detectors import find_cards, find_ibans, find_phones
from app.recording.content.sparse_search import Span, SparseSearch
from app.store.keys.mask_rules import Pattern

# The part behind the @; before it, as many of these as there are. Every other byte is a part of some letter, or of another character.
_DOMAIN = re.compile(rb"@[A-Za-z0-9\x80-\xff][A-Za-z0-9.\x80-\xff-]*\.[A-Za-z\x80-\xff]{2}[A-Za-z\x80-\xff]*")
_LOCAL = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._%+'-" + bytes(range(0x80, 0x100))
_LOCAL_BACKWARDS = re.compile(r"[\w.%+'-]*")
_EMAIL = re.compile(r"[\w.%+'-]+@[^\W_](?:[^\W_]|[.-])*\.[^\W\d_]{2,24}")
_IP_ADDRESS = (
    rb"\b(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}\b"
    rb"|(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b|\b(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}\b"
)
_HEX_GROUP = re.compile(rb"(?=[0-9A-Fa-f]*[0-9])[0-9A-Fa-f]{3,4}")
# Keys by their issuers' prefixes, tokens of three parts (JWT), private keys in PEM, and passwords in addresses. Patterns whose search goes
# on through a long text are apart: together, each match of another would begin that search again.
_SECRETS = (
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bgh[oprsu]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bgsk_[A-Za-z0-9]{20,}|\bxai-[A-Za-z0-9]{20,}|\bnx-[0-9a-f]{12}-[A-Za-z0-9_-]{20,}|\bnx[scb]-[A-Za-z0-9_-]{40,}",
    r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@",
)
# With all letters of Unicode they need more memory than a team's.
_SECRET_PATTERNS = [Pattern(pattern, max_memory_bytes=4 * 1024 * 1024) for pattern in _SECRETS]


def _find_secrets(text: bytes) -> Iterator[Span]:
    for pattern in _SECRET_PATTERNS:
        yield from pattern.find_all(text)


def _find_emails(text: bytes) -> Iterator[Span]:
    # Where the next local part may begin: behind what was found, and behind the @ before it, which no local part has. So each byte is
    # looked at once, also of a text full of domains without an address.
    first = 0
    for match in _DOMAIN.finditer(text):
        at, end = match.span()
        before, first = text[first:at], at + 1
        local_bytes = len(before) - len(before.rstrip(_LOCAL))
        if local_bytes:
            begin = at - local_bytes
            written = text[begin:end]
            if not written.isascii() or end > at + 25:
                span = _find_unicode_email(written, begin)
                if span is None:
                    continue
                begin, end = span
            yield begin, end
            first = end


def _find_unicode_email(written: bytes, begin: int) -> Span | None:
    """Returns the part of what looks like an address whose characters are letters and digits, or signs that
    addresses have. Returns None if no address is left.
    """
    text = written.decode("utf-8", "replace")
    at = text.index("@")
    backwards = _LOCAL_BACKWARDS.match(text[:at][::-1])
    start = at - (backwards.end() if backwards else 0)
    match = _EMAIL.match(text, start)
    if match is None:
        return None
    first = begin + len(text[:start].encode())
    return first, first + len(match[0].encode())


def _check_ip_address(text: bytes, begin: int, end: int) -> tuple[Span | None, int]:
    # a::b is one by the standard, and in most texts something else.
    is_address = b":" not in text[begin:end] or _HEX_GROUP.search(text, begin, end) is not None
    return ((begin, end) if is_address else None), end


FINDERS: Mapping[Detector, Callable[[bytes], Iterator[Span]]] = {
    "secret": _find_secrets,
    "email": _find_emails,
    "iban": find_ibans,
    "card": find_cards,
    "phone": find_phones,
    "ip_address": SparseSearch(_IP_ADDRESS, _IP_ADDRESS, _check_ip_address).find_all,
}
