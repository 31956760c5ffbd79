"""Where jobs are kept: `open_store` finds the right store for a URL."""
