"""Retrying a plain call without storing it, and falling back from one provider to another.

Here: `@retry` and `retrying`, their waits and the switch for tests, `fallback`, the providers'
cooldowns. Not here: durable retries of jobs (`worker`).
"""
