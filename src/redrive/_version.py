"""The version of this Redrive, where every layer may read it."""

__version__ = "0.1.0"
