"""Units of experiments: which were touched, what was measured of them, and the sums over them."""
