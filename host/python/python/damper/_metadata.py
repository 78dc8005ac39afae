"""Key of a model file's metadata that maps initializers to tensors of the module."""

METADATA = "damper.module"
