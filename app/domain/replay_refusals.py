"""Why recorded requests cannot be replayed."""

from collections.abc import Mapping

# By reason, as messages have it.
REFUSALS: Mapping[str, str] = {
    "route": "of another API than chat completions, Responses, Messages, completions and /inference",
    "team_policy": "of teams that no longer keep all that is written",
    "deleted": "deleted by their callers",
    "expired": "whose content is kept no longer",
    "none": "recorded without content",
    "redacted": "recorded without text",
    "masked": "recorded with parts of the text masked",
    "lost": "whose content was lost, as the disk was full",
    "erased": "erased",
}
