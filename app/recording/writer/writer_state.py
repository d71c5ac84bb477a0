"""The state of a writer that outlives its sessions."""

from msgspec import Struct, field


class WriterState(Struct):
    """The state that outlives a session: counts since the writer's start, committed positions, and segments
    that wait (see QuarantineFailed).

    `last_error` is the last one since a batch was stored.
    """

    rows: int = 0
    feedback: int = 0
    conflicting_feedback: int = 0
    quarantined: int = 0
    unfinished_parts: int = 0
    torn_records: int = 0
    lost_content: int = 0
    last_error: str | None = None
    committed: dict[str, int] = field(default_factory=dict[str, int])
    postponed_until: dict[str, float] = field(default_factory=dict[str, float])
