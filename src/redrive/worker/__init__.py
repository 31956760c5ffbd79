"""Running jobs: claim, execute, settle, and recover what a lost worker left behind.

Here: the supervisor and its worker processes, one pass over what is due, executions in threads, on an
event loop or in child processes, leases, pauses after an outage, and the workers' side of runs. Not
here: decisions (`policies`), storage (`stores`), what operators do (`desk`).
"""
