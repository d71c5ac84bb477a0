"""Versions of engines as numbers that can be compared."""


def parse_version(version: str) -> tuple[int, ...] | None:
    """The leading numbers of a version such as 0.11.2rc1+cpu; None if it starts with none (a development build)."""
    numbers: list[int] = []
    for part in version.removeprefix("v").split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:  # an engine may report anything, and int() rejects a number of 5,000 digits
            break
        numbers.append(int(digits))
    return tuple(numbers) or None
