"""One attempt at a job, wherever it is made: in a worker, in a pass or in place by the submitter.

Here: the execution of a handler and what its end means for the job, the leases of claimed jobs, the
runtime that claims and settles, the counters for metrics, and pauses after an outage. Not here: which
jobs run when and in which thread or process (`worker`), and decisions (`policies`).
"""
