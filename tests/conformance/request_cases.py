"""All cases of request translation: each request as callers of each dialect write it, and its outcome at every target."""

from tests.conformance.request_cases_agents import AGENT_ITEMS, AGENT_SETTINGS
from tests.conformance.request_cases_gemini import OWN_CASES, with_gemini
from tests.conformance.request_cases_hints import HINTS, OTHER_FIELDS
from tests.conformance.request_cases_history import HISTORY
from tests.conformance.request_cases_media import MEDIA
from tests.conformance.request_cases_messages import MESSAGES
from tests.conformance.request_cases_sampling import OUTPUTS, REASONING, SAMPLING
from tests.conformance.request_cases_tools import TOOL_REQUESTS

_CASES = (
    *MESSAGES,
    *MEDIA,
    *TOOL_REQUESTS,
    *AGENT_ITEMS,
    *OUTPUTS,
    *SAMPLING,
    *REASONING,
    *AGENT_SETTINGS,
    *HISTORY,
    *HINTS,
    *OTHER_FIELDS,
)
REQUEST_CASES = (*map(with_gemini, _CASES), *OWN_CASES)
