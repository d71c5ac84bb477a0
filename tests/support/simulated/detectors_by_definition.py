"""The built-in detectors as they are defined, step by step in Python: what app/recording/content/detectors.py has to find, only faster."""

import re
from collections.abc import Callable, Iterator, Mapping

from app.domain.callers import Detector
from app.store.keys.mask_rules import Pattern

Span = tuple[int, int]

# Patterns of our own, which are known to be small: with all letters of Unicode they need more memory than a team's.
_MEMORY_BYTES = 4 * 1024 * 1024


def _pattern(text: str) -> Pattern:
    return Pattern(text, max_memory_bytes=_MEMORY_BYTES)


_EMAIL = _pattern(r"[\pL\pN._%+'-]+@[\pL\pN][\pL\pN.-]*\.\pL{2,24}")
_PHONE = _pattern(r"\+?\(?[0-9](?:[ .()/\x{A0}-]{0,3}[0-9]){6,16}")
_CARD = _pattern(
    r"\b(?:[2-6][0-9]{12,18}|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}|[2-6][0-9]{3}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{1,4}(?:[ -][0-9]{1,3})?)\b"
)
_IBAN_BEGIN = _pattern(r"\b[A-Za-z]{2}[0-9]{2}[ ]?[A-Za-z0-9]{4}")
_IP_ADDRESS = _pattern(
    r"\b(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}\b"
    r"|(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b|\b(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}\b"
)
# Keys by their issuers' prefixes, tokens of three parts (JWT), private keys in PEM, and passwords in addresses.
_SECRET = _pattern(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bgh[oprsu]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bgsk_[A-Za-z0-9]{20,}|\bxai-[A-Za-z0-9]{20,}|\bnx-[0-9a-f]{12}-[A-Za-z0-9_-]{20,}|\bnx[scb]-[A-Za-z0-9_-]{40,}"
    r"|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|\b[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"
)

# The lengths of IBANs by country. Source: SWIFT's IBAN registry, release 100, read 2026-11.
_IBAN_LENGTHS = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "FK", "FO", "GL", "NL", "SD"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "CR", "DE", "GB", "GE", "IE", "ME", "RS", "VA"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "IQ", "OM", "SO", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("LY", "PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("BI", "DJ", "FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "BY", "CY", "DO", "GT", "HU", "LB", "NI", "PL", "SV"), 28),
    **dict.fromkeys(("BR", "EG", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MN", "MU", "YE"), 30),
    **dict.fromkeys(("LC", "MT", "SC"), 31),
    **dict.fromkeys(("RU",), 33),
}
_MAX_IBAN_BYTES = 60  # with a space after each fourth, and some to spare
_DIGITS = frozenset(b"0123456789")
_HEX_GROUP = re.compile(rb"(?=[0-9A-Fa-f]*[0-9])[0-9A-Fa-f]{3,4}")
_GROUP_OF_DIGITS = re.compile(rb"[0-9]+")
_LETTERS_AND_DIGITS = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def _find_emails(text: bytes) -> Iterator[Span]:
    return _EMAIL.find_all(text) if b"@" in text else iter(())


def _find_phones(text: bytes) -> Iterator[Span]:
    for begin, end in _PHONE.find_all(text):
        if text[begin] == 0x28 and b")" not in text[begin:end]:
            begin += 1  # the whole number is in brackets
        # What is written beside the number in the same row of digits may be something else: an order's number, a year.
        starts = [begin, *(at for at in range(begin + 1, end) if text[at - 1] == 0x20 and (text[at] in _DIGITS or text[at] == 0x28))]
        ends = [end, *(at for at in range(end - 1, begin + 6, -1) if text[at] == 0x20 and text[at - 1] in _DIGITS)]
        tried = [*((start, end) for start in starts), *((begin, each) for each in ends)]
        number = next((span for span in tried if _is_phone(text, *span)), None)
        if number is not None:
            yield number


def _is_phone(text: bytes, begin: int, end: int) -> bool:
    """International, with + or 00; national, with a 0 and in groups; or of North America, in groups."""
    before, after = text[begin - 1 : begin] if begin else b"", text[end : end + 1]
    if before.isalnum() or (before and before in b"_.-+/#:") or after.isalnum():
        return False
    written = text[begin:end]
    groups = [len(each) for each in _GROUP_OF_DIGITS.findall(written)]
    digits = sum(groups)
    if len(set(b"".join(_GROUP_OF_DIGITS.findall(written)))) == 1:
        return False
    if written.startswith(b"+"):
        return 8 <= digits <= 15
    if written.startswith(b"00"):
        return 10 <= digits <= 17
    if written.lstrip(b"(").startswith(b"0"):
        is_decimal_or_date = written.startswith(b"0.") or groups[:3] in ([2, 2, 4], [2, 2, 2])
        return len(groups) > 1 and 8 <= digits <= 13 and not is_decimal_or_date
    return groups in ([3, 3, 4], [1, 3, 3, 4])


def _find_cards(text: bytes) -> Iterator[Span]:
    start = 0
    while (found := _CARD.find(text, start)) is not None:
        begin, end = found
        start = begin + 1
        if _passes_luhn(b"".join(_GROUP_OF_DIGITS.findall(text[begin:end]))):
            yield found
            start = end


def _passes_luhn(digits: bytes) -> bool:
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    total = 0
    for at, byte in enumerate(reversed(digits)):
        digit = byte - 0x30
        if at % 2:
            digit = digit * 2 - 9 if digit > 4 else digit * 2
        total += digit
    return total % 10 == 0


def _find_ibans(text: bytes) -> Iterator[Span]:
    start = 0
    while (found := _IBAN_BEGIN.find(text, start)) is not None:
        begin = found[0]
        end = _end_of_iban(text, begin)
        start = begin + 1 if end is None else end
        if end is not None:
            yield begin, end


def _end_of_iban(text: bytes, begin: int) -> int | None:
    length = _IBAN_LENGTHS.get(text[begin : begin + 2].upper().decode())
    if length is None:
        return None
    written: list[int] = []
    for at in range(begin, min(len(text), begin + _MAX_IBAN_BYTES)):
        if text[at] in _LETTERS_AND_DIGITS:
            written.append(text[at])
            if len(written) == length:
                is_whole = not text[at + 1 : at + 2].isalnum()
                return at + 1 if is_whole and _has_iban_checksum(bytes(written).upper().decode()) else None
        elif text[at] != 0x20 or text[at - 1] == 0x20:
            return None
    return None


def _has_iban_checksum(iban: str) -> bool:
    return int("".join(str(int(each, 36)) for each in iban[4:] + iban[:4])) % 97 == 1


def _find_ip_addresses(text: bytes) -> Iterator[Span]:
    for begin, end in _IP_ADDRESS.find_all(text):
        # a::b is one by the standard, and in most texts something else.
        if b":" not in text[begin:end] or _HEX_GROUP.search(text, begin, end):
            yield begin, end


FINDERS: Mapping[Detector, Callable[[bytes], Iterator[Span]]] = {
    "secret": _SECRET.find_all,
    "email": _find_emails,
    "iban": _find_ibans,
    "card": _find_cards,
    "phone": _find_phones,
    "ip_address": _find_ip_addresses,
}
