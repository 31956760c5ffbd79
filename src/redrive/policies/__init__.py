"""What to do about a failure: attempts, waits, limits, and the one decision that applies them.

Here: `Policy` and its parts, the presets, `decide`. All pure: time and chance are arguments. Not here:
what kind of failure it was (`classify`), and carrying out the decision (`worker`).
"""
