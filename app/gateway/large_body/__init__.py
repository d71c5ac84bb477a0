"""Large request bodies: caps on them, and the thread in which they are handled."""
