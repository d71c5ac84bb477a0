"""Emulation: what the gateway does itself for a request because its target cannot."""
