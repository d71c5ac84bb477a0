"""Clients of a gateway: the one that commands use with a caller's key, and the configuration of coding agents and editors."""
