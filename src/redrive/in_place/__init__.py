"""Retrying a plain call without storing it, and falling back from one provider to another.

Here: `@retry`, `fallback`, the providers' cooldowns. Not here: durable retries of jobs (`worker`).
"""
