"""Builds of Redrive that are broken on purpose, for the rigs' negative controls."""
