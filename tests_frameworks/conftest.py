"""What the tests with drivers and web frameworks share: the kits, and stores on a real PostgreSQL."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [
    str(HERE),
    str(HERE.parent / "tests" / "kits"),
]  # at the end: they hide no installed module

for name in [*os.environ]:
    if name.lower().endswith("_proxy") or name.startswith("PG"):
        del os.environ[name]

import pgkit  # noqa: E402 - found by the lines above


@pytest.fixture
def url():
    """The URL of an empty store in a schema of the test server."""
    schema = pgkit.new_schema()
    yield pgkit.url_of(schema)
    pgkit.release(schema)
