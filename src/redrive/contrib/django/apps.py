"""The configuration of the Django app: finds the handlers of all installed apps."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from redrive.contrib.django import project


class RedriveConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """Imports `handlers` of every installed app once all models are loaded."""

    name = "redrive.contrib.django"
    label = "redrive"
    verbose_name = "Redrive"

    def ready(self) -> None:
        """Set the store of this process, and import the handlers."""
        project.use_settings()
        autodiscover_modules(*project.modules())
