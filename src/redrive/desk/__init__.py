"""What operators see of the jobs and do to them.

Here: selectors and search, actions, groups, runs, documents for people and programs, import and
export, retention. The command line, the web API, alerts and metrics call this package and nothing
below it. Not here: running jobs (`worker`), and how answers look (`cli.output`, `web`).
"""
