"""`redrive demo`: `story` plays an outage in the terminal, `sample` fills a store for the console."""
