"""The name of this dialect, which its parts of requests carry as their origin."""

DIALECT = "tensorzero_inference"
