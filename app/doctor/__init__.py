"""The doctor: for each part of an installation a file that looks (facts) and judges them (findings, in sentences)."""
