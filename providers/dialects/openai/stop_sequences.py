"""The `stop` field of chat and completions."""


def read_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())
