"""Payloads as text: strict JSON, typed arguments, masking, editing, escape codes.

Here: what may be stored, how a handler's arguments become JSON and back, and what is hidden from
readers. Not here: which jobs are read or edited (`desk`), and where payloads are kept (`stores`).
"""
