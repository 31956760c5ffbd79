"""The library's logger; it stays silent until the program sets up logging."""

import logging

log = logging.getLogger("redrive")
log.addHandler(logging.NullHandler())
