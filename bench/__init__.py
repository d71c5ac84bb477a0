"""The benchmark: the gateway with everything on, a direct connection and other gateways, in turns. README.md explains it."""
