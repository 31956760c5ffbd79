"""Running jobs: one execution (`run`), one pass over what is due (`turn`)."""
