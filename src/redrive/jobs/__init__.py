"""The record of a job, and the pure rules that change it.

Here: `Job`, `Attempt`, `Failure`, the states, what each verb changes (`transitions`), ids, clocks,
durations, the logger. Not here: when to retry (`policies`), storage (`stores`), running (`worker`).
"""
