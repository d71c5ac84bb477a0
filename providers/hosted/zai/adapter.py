"""Z.ai: a row of hosts.toml, and the field without which arguments of calls do not stream."""

from providers.canonical.raw_json import Body
from providers.hosted.host_spec_provider import HostSpecProvider


class Zai(HostSpecProvider, host="zai"):
    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """Writes the model, and for streams `tool_stream`, without which arguments arrive in one lump at the end.

        Source: https://docs.z.ai/guides/tools/stream-tool, read 2026-11.
        """
        super().set_model(body, dialect, model, stream)
        if stream and dialect == "openai_chat" and body.has_value("tools"):
            body.setdefault("tool_stream", True)
