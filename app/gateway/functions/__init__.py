"""Functions: what their requests become, by the variant that serves them."""
