"""A resilient event stream: actions retried in place, a log of what happened, dead letters kept.

`ResilientEventStream` is the whole of it. `walk` takes one event to its end, `work` turns an action
and its data into something that can be run, `event` holds an event and its lines, `log` is the file
of lines, `tally` the numbers.
Nothing here decides about a failure: that is `_decide`'s, as everywhere else.
"""

from redrive.stream.emitter import ResilientEventStream
from redrive.stream.event import ErrorInfo, Line, RetryInfo

__all__ = ["ErrorInfo", "Line", "ResilientEventStream", "RetryInfo"]
