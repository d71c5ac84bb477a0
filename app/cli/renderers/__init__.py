"""Output of made commands that columns and sentences cannot say: a module for each subject."""
