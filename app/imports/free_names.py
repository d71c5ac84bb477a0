"""Names for entries that the source does not name as we must."""


class FreeNames:
    """Hands each name out once: NAME, NAME-2, NAME-3 ..."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, base: str) -> str:
        name = base
        while name in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            name = f"{base}-{self._numbers[base]}"
        self._taken.add(name)
        return name
