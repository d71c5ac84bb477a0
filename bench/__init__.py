"""The benchmark: the gateway with everything on, a direct connection and other gateways, interleaved in one run. Start: README.md."""
