"""How the responses of a replay compare with those of its originals."""
