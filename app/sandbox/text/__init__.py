"""Text of the sandbox: random, or as a grammar or schema demands."""
