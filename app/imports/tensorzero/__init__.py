"""TensorZero's configuration: tensorzero.toml, its templates and schemas."""
