"""Counters of limits in Redis or Valkey: one connection for each worker, and the Lua scripts that count."""
