"""`redrive demo`: an outage in under a minute, on this machine alone and gone afterwards.

Here: `town` (a server on loopback), `screen`, `story` (the script). Not here: the command (`cli.demo`).
"""
