"""What callers ask, each situation once: how a caller of each dialect says it, and what every target makes of it. All cells are written."""

from tests.conformance.asks_hints import HINTS, REST
from tests.conformance.asks_history import HISTORY
from tests.conformance.asks_media import MEDIA
from tests.conformance.asks_messages import MESSAGES
from tests.conformance.asks_terms import OUTPUTS, REASONING, SAMPLING
from tests.conformance.asks_tools import TOOL_ASKS

ASKS = (*MESSAGES, *MEDIA, *TOOL_ASKS, *OUTPUTS, *SAMPLING, *REASONING, *HISTORY, *HINTS, *REST)
