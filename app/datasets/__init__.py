"""Datasets: recorded inferences made into examples, built by a writer's process, and written out for training."""
