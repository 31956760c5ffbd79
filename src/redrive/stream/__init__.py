"""A resilient event stream: actions retried in place, a log of what happened, dead letters kept.

`ResilientEventStream` is the whole of it. `event` holds one event and its lines, `work` turns an
action and its data into something that can be run, `log` is the file of lines, `tally` the numbers.
Nothing here decides about a failure: that is `_decide`'s, as everywhere else.
"""

from redrive.stream.emitter import ResilientEventStream
from redrive.stream.event import ErrorInfo, Line, RetryInfo

__all__ = ["ErrorInfo", "Line", "ResilientEventStream", "RetryInfo"]
