"""The responses that are kept in Redis for repetitions, and its client."""
