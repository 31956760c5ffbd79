"""Sending a body over HTTP: endpoints, signatures, and the guard against private addresses.

Here: what an endpoint's job does when it runs. Not here: retries and records of it (`worker`).
"""
