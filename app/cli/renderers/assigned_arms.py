"""The variant or arm that a recorded request was assigned to, and the experiment that did so, as text."""


def variant_text(assigned: str | None, served: str | None) -> str:
    """The assigned one, then the one that answered if it is another. Empty: the request had none."""
    if assigned is None or served is None or served == assigned:
        return assigned or served or ""
    return f"{assigned} → {served}"


def experiment_text(name: str | None, version: int | None) -> str:
    """Returns the experiment as the header x-narthex-experiment has it, or nothing if there was none."""
    return "" if name is None else f"{name}@{version}"
