"""Counters in Redis or Valkey: one connection for each worker, and the scripts that count."""
