"""The state of a request while it runs: its context, its stages, and the exchange that becomes of them."""
