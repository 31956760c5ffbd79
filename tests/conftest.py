"""What every test shares: the way to `kit`, and quiet, repeatable property tests."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Test modules are no package (import mode importlib), so what they share needs a path of its own.
# At the end: nothing here may hide an installed module.
sys.path.append(str(Path(__file__).parent))

# Repeatable, so that a red run is red again; rigs look for new cases with fresh seeds.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")
