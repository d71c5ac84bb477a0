"""The list of all hosts whose recordings are replayed."""

from collections.abc import Sequence

from tests.replay.hosts import anthropic, bedrock, cohere, gemini, hosts_toml, mistral, openai_protocol_hosts, sagemaker, vertex
from tests.replay.hosts.host import Host

HOSTS: Sequence[Host] = (
    *anthropic.HOSTS,
    *bedrock.HOSTS,
    *cohere.HOSTS,
    *gemini.HOSTS,
    *mistral.HOSTS,
    *openai_protocol_hosts.HOSTS,
    *hosts_toml.HOSTS,
    *sagemaker.HOSTS,
    *vertex.HOSTS,
)
