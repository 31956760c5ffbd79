"""Other programs' files of failed work, as jobs and back: one module a format.

Here: `detect` tells a format by its records, `pieces` cuts a file into records without reading it
whole, `spool` joins the lines about one job on disk. Not here: storing the jobs (`desk.transfer`).
"""
