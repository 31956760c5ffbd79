"""Redrive over HTTP: health for probes, metrics, and a JSON API for every language."""
