"""An endpoint: a handler that sends its body over HTTP. A job names it and never carries a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from redrive import config
from redrive.context import current
from redrive.delivery.courier import Courier, EndpointSettings
from redrive.delivery.wire import Reply
from redrive.errors import UsageError
from redrive.payloads.strict_json import Json

if TYPE_CHECKING:
    from redrive.handler import Handler, Tried
    from redrive.jobs.job import Job
    from redrive.policies.policy import Policy


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL to send to. `handler` is its handler, with all options of handlers."""

    handler: Handler[[Json], Reply]
    courier: Courier

    @property
    def name(self) -> str:
        """The name that jobs carry."""
        return self.handler.name

    def send(self, body: Json, *, key: str | None = None) -> Job:
        """Store a body to be sent by a worker; once this returns, it survives a crash.

        A key goes out with every attempt as `Idempotency-Key`; and it is the key of the job, so
        that sending again under the same key is the same job.
        """
        return self._keyed(body, key).submit(body)

    def try_now(self, body: Json, *, key: str | None = None) -> Tried[Reply]:
        """Send it now, in this process; if that fails, store it and send it later."""
        return self._keyed(body, key).try_now(body)

    def _keyed(self, body: Json, key: str | None) -> Handler[[Json], Reply]:
        if key is not None and self.courier.key_field and not isinstance(body, dict):
            msg = f"endpoint {self.name!r} puts the key into the body, which must be an object"
            raise UsageError(msg)
        return self.handler.options(key=key)


def poster(courier: Courier) -> Callable[[Json], Reply]:
    """Return the function that runs each job of an endpoint."""

    def post(body: Any) -> Reply:  # Any: as it is, for JSON says no more about it
        job = current()
        is_given = not job.key.startswith(job.job_id)  # else it is only the job's id
        return courier.deliver(body, ident=job.key, key=job.key if is_given else None)

    return post


def courier_of(name: str, settings: EndpointSettings) -> Courier:
    """Merge the settings of an endpoint in the program with those in the configuration."""
    section: Mapping[str, object] = config.find().endpoints.get(name, {})
    return Courier(name, cast("EndpointSettings", {**section, **settings}))


def at_once(policy: Policy) -> Policy:
    """Let refused credentials and a 410 pause the lane, where the policy has pauses at all."""
    return replace(policy, pause=policy.pause and replace(policy.pause, at_once=True))
