"""The checking process. Its modules import nothing that holds secrets (tests/test_architecture.py)."""
