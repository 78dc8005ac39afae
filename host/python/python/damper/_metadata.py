"""The key of a model file's metadata that says which initializer is which tensor of the module."""

METADATA = "damper.module"
