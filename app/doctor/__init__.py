"""The doctor: a file for each part of an installation, which collects facts and judges them as findings."""
