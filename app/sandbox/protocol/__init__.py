"""Requests and errors of the sandbox, as it reads and writes them."""
