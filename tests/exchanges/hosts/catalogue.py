"""Every host whose recordings are replayed: the only list of them."""

from collections.abc import Sequence

from tests.exchanges.hosts import anthropic, bedrock, cohere, gemini, mistral, openai_shaped, rows, sagemaker, vertex
from tests.exchanges.hosts.host import Host

HOSTS: Sequence[Host] = (
    *anthropic.HOSTS,
    *bedrock.HOSTS,
    *cohere.HOSTS,
    *gemini.HOSTS,
    *mistral.HOSTS,
    *openai_shaped.HOSTS,
    *rows.HOSTS,
    *sagemaker.HOSTS,
    *vertex.HOSTS,
)
