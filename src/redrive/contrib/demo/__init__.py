"""`redrive demo`: a bad night in under a minute, on this machine alone and gone afterwards.

`town` is the world outside, a real server on the loopback interface; `screen` shows how things
stand, on a terminal or in lines; `story` tells it.
"""
