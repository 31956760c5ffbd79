"""Other programs' files of failed work, as jobs and back: one module a format, none knows another.

A format is told by the shape of a record (`detect`), a file is cut into records without being read
whole (`pieces`), and what many lines say of one job is brought together on disk (`spool`). Nothing
here opens a store: records come in, jobs go out, and the other way round.
"""
