"""The sandbox engine: a server with OpenAI's API and no model, to try a gateway or test a client without cost."""

from app.sandbox.server import build, serve

__all__ = ["build", "serve"]
