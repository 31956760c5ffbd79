"""Workers and passes: which jobs run when, and in which thread, event loop or process.

Here: the supervisor and its worker processes, the worker and its schedule, one pass over the due jobs,
the dispatch to threads, event loops and children, health checks, and the sweep after a lost worker. Not
here: the attempt itself (`attempts`), decisions (`policies`), storage (`stores`), operators (`desk`).
"""
