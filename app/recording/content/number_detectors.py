"""Detectors of numbers: phones, cards and bank accounts. A table of numbers is as fast to search as any text."""

import re

from app.recording.content.sparse_search import Span, SparseSearch

_NOT_DIGITS = bytes(set(range(256)) - set(b"0123456789"))

# Up to three separators, or some more with no-break spaces. A class of bytes is passed over several times as fast as alternatives.
_NO_BREAK = rb"(?:\xc2\xa0[ .()/-]{0,2})"
_NEXT = rb"[ .()/-]{0,3}" + _NO_BREAK + rb"{0,3}[0-9]"
_GAP = rb"(?:[ .()/-]{1,3}" + _NO_BREAK + rb"{0,2}|" + _NO_BREAK + rb"{1,3})"
_BEFORE = rb"0-9A-Za-z_.+/#:-"
# Other digits follow behind a space alone: they may be something else, an order's number or a year.
_END = rb"(?![0-9A-Za-z]|(?! )" + _GAP + rb"[0-9])"
# What follows the first digit of a number of North America, in groups, and of a date.
_GROUPS = rb"(?:[0-9]{2}" + _GAP + rb"[0-9]{3}" + _GAP + rb"[0-9]{4}|" + _GAP + rb"[0-9]{3}" + _GAP + rb"[0-9]{3}" + _GAP + rb"[0-9]{4})"
_DATE = rb"[0-9]" + _GAP + rb"[0-9]{2}" + _GAP + rb"(?:[0-9]{4}|[0-9]{2})(?![0-9])"
_NATIONAL = rb"(?!" + _DATE + rb")(?:" + _NEXT + rb"){7,12}"
# International, with + or 00; national, with a 0 and in groups, which is no date and no fraction; or of North America, in groups. The last
# two may have a bracket that is closed within the number; another one is around all of it. Each alternative begins with a byte of its
# own, so that `re` tries one of them.
_PHONE = (
    rb"(?<![" + _BEFORE + rb"])(?:\+\(?[0-9](?:" + _NEXT + rb"){7,14}|00(?:" + _NEXT + rb"){8,15}|0(?![0.])" + _NATIONAL
    + rb"|[1-9]" + _GROUPS + rb"|\((?=[0-9 ./-]{1,9}\)[ .()/-]{0,2}[0-9])(?:0" + _NATIONAL + rb"|[1-9]" + _GROUPS + rb"))" + _END
)  # fmt: skip
# For RE2, which finds no more than where one may begin, and knows no look ahead: what follows a 0 that is no fraction's, as most numbers
# of some tables are; and _END, which matches more where no-break spaces follow.
_NO_FRACTION = rb"(?:[ ()/-][ .()/-]{0,2})?" + _NO_BREAK + rb"{0,3}[0-9]"
_ROUGH_END = rb"(?:$|[^0-9A-Za-z.()/-]|[.()/-][ .()/-]{0,2}(?:$|[^0-9 .()/-])|[.()/-][ .()/-]{3})"
_ROUGH_PHONE = (
    rb"(?:^|[^" + _BEFORE + rb"])(?:\+\(?[0-9](?:" + _NEXT + rb"){7}|\(?[1-9]" + _GROUPS
    + rb"|(?:\(0|0" + _NO_FRACTION + rb")(?:" + _NEXT + rb"){6,15}" + _ROUGH_END + rb")"
)  # fmt: skip


# A lone 0 within a row begins no number: tables are full of them.
_INNER_ZERO = re.compile(rb" \(?0[0-9]")


def _check_phone(text: bytes, begin: int, end: int) -> tuple[Span | None, int]:
    written = text[begin:end]
    digits = written.translate(None, _NOT_DIGITS)
    is_one_group = len(digits) == len(written) and written[:2] != b"00"
    is_repeated = digits.count(digits[:1]) == len(digits)
    span = None if is_one_group or is_repeated else (begin, end)
    if text[end : end + 1] != b" ":
        return span, end
    # In a row of numbers, the next one may begin within: with a 0, or with the last group.
    inner = _INNER_ZERO.search(written)
    at = begin + (written.rfind(b" ") if inner is None else inner.start()) + 1
    return span, at if at > begin else end


find_phones = SparseSearch(_ROUGH_PHONE, _PHONE, _check_phone).find_all

_CARD = (
    rb"\b(?:[2-6][0-9]{12,18}|3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}"
    rb"|[2-6][0-9]{3}[ -][0-9]{4}[ -][0-9]{4}[ -][0-9]{1,4}(?:[ -][0-9]{1,3})?)\b"
)
# By the bytes of digits: twice a digit, less 9 if that has two digits; both as they are summed.
_DOUBLED = bytes([(2 * (byte - 0x30) - 9 * (byte > 0x34)) % 256 if 0x30 <= byte <= 0x39 else 0 for byte in range(256)])


def _check_card(text: bytes, begin: int, end: int) -> tuple[Span | None, int]:
    digits = text[begin:end].translate(None, _NOT_DIGITS)
    if passes_luhn(digits):
        return (begin, end), end
    return None, begin + 1 if len(digits) < end - begin else end  # within digits no number begins


def passes_luhn(digits: bytes) -> bool:
    single, doubled = digits[::-2], digits[-2::-2]
    total = sum(single) - 0x30 * len(single) + sum(doubled.translate(_DOUBLED))
    return not total % 10 and 13 <= len(digits) <= 19 and digits.count(digits[:1]) < len(digits)


find_cards = SparseSearch(_CARD, _CARD, _check_card).find_all

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
_IBANS = {
    country.encode(): re.compile(rb"(?i:[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){%d})(?![A-Za-z0-9])" % (length - 4))
    for country, length in _IBAN_LENGTHS.items()
}
_IBAN_BEGIN = rb"(?i:\b(?:" + b"|".join(_IBANS) + rb")[0-9]{2} ?[A-Z0-9]{4})"
_IBAN_VALUES = {character: str(int(character, 36)) for character in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def _check_iban(text: bytes, begin: int, end: int) -> tuple[Span | None, int]:
    written = _IBANS[text[begin : begin + 2].upper()].match(text, begin)
    if written is None or not _has_iban_checksum(written[0].translate(None, b" ").upper().decode()):
        return None, begin + 1
    return written.span(), written.end()


def _has_iban_checksum(iban: str) -> bool:
    return int("".join(map(_IBAN_VALUES.__getitem__, iban[4:] + iban[:4]))) % 97 == 1


find_ibans = SparseSearch(_IBAN_BEGIN, _IBAN_BEGIN, _check_iban).find_all
