"""What workers say of themselves, for those who look through the desk."""

from __future__ import annotations

from redrive.stores.worker_notes import blocked, is_silent, missing, served, silence

__all__ = ["blocked", "is_silent", "missing", "served", "silence"]
