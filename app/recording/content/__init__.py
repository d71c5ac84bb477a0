"""The content that is recorded: redacted, or without what detectors find. masking.py is the way in."""
