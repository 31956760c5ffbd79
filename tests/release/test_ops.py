"""A5, R-SUMMARIES 6: what ops/ ships is well formed, speaks of what there is, and its check runs."""

from __future__ import annotations

import configparser
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from logfilterkit import Filter, entry_of, extracted
from redrive import Redrive
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.jobs.durations import seconds
from redrive.logs import JsonFormatter
from redrive.metrics import ALL
from redrive.web.api import ROUTES
from summarykit import new_database
from tablekit import each_row
from workkit import free_port, until

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
README = (ROOT / "README.md").read_text("utf-8")
SPARE = 5
"""Seconds that the supervisor gives its workers beyond their grace."""


def read_yaml(name: str) -> Any:
    return yaml.safe_load((OPS / name).read_text("utf-8"))


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a line as the real command reads them; an unknown one is an error."""
    assert words[0] == "redrive" or words[0].endswith("/redrive"), words
    top = click.Context(root, obj=Cli())
    found = root.get_command(top, words[1])
    assert found is not None, words
    return found.make_context(words[1], list(words[2:]), parent=top).params


def check_worker(words: list[str], stops_after: float) -> None:
    said = parsed(words)
    assert said["log_format"] == "json"
    assert seconds(said["grace"]) + SPARE < stops_after, "killed before its jobs may end"


# Prometheus


def rules() -> list[dict[str, Any]]:
    (group,) = read_yaml("prometheus/redrive.rules.yml")["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


KNOWN = {
    f"{name}_total" if one.kind == "counter" else name: set(one.labels) for name, one in ALL.items()
}


@each_row("rule", rules())
def test_a_rule_speaks_of_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    expr = rule["expr"]
    names = set(re.findall(r"\bredrive_\w+", expr))
    assert names
    assert names <= KNOWN.keys()
    labels = set().union(*(KNOWN[name] for name in names))
    asked = re.findall(r"(?:by|on) \((\w+)\)", expr) + re.findall(r"[{,](\w+)=", expr)
    words = " ".join(rule["annotations"].values())
    assert {*asked, *re.findall(r"\$labels\.(\w+)", words)} <= labels
    for one, other in ("()", "[]", "{}"):
        assert expr.count(one) == expr.count(other)
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert words.count("{{") == words.count("}}")


# Google Cloud


def death(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """A dead letter as a worker logs it."""
    app = Redrive("memory:")

    @app.handler("mail", attempts=1, lane="post")
    def mail() -> None:
        raise ValueError("no")

    mail.submit()
    app.run_due()
    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "dead_letter"]
    found: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return found


def test_the_log_metric_counts_what_a_worker_logs_of_a_death(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "redrive")
    metric = json.loads((OPS / "google" / "log-metric.json").read_text("utf-8"))
    entry = entry_of(json.dumps(death(caplog)))
    assert Filter(metric["filter"])(entry)
    labels = extracted(metric, entry)
    assert labels == {"lane": "post", "reason": "exhausted"}
    described = metric["metricDescriptor"]
    assert [one["key"] for one in described["labels"]] == list(labels)
    assert (described["metricKind"], described["valueType"]) == ("DELTA", "INT64")


def test_the_alert_policy_watches_that_metric() -> None:
    metric = json.loads((OPS / "google" / "log-metric.json").read_text("utf-8"))
    policy = json.loads((OPS / "google" / "alert-policy.json").read_text("utf-8"))
    (condition,) = policy["conditions"]
    threshold = condition["conditionThreshold"]
    name = f'metric.type="logging.googleapis.com/user/{metric["name"]}"'
    assert threshold["filter"].startswith(name)
    assert (threshold["comparison"], threshold["thresholdValue"]) == ("COMPARISON_GT", 0)
    (aggregation,) = threshold["aggregations"]
    labels = [f"metric.label.{one['key']}" for one in metric["metricDescriptor"]["labels"]]
    assert set(aggregation["groupByFields"]) <= set(labels)
    assert policy["combiner"] == "OR"
    for line in re.findall(r"`(redrive [^`]*)`", policy["documentation"]["content"]):
        parsed(shlex.split(line))


# systemd


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[method-assign,assignment]
    found.read(OPS / "systemd" / name, "utf-8")
    return found


@each_row("name", sorted(one.name for one in (OPS / "systemd").iterdir()))
def test_a_unit_starts_a_command_that_there_is(name: str) -> None:
    found = unit(name)
    assert set(found.sections()) == {"Unit", "Service", "Install"}
    assert found["Service"]["Restart"] == "always"
    assert found["Service"]["User"] != "root"
    words = shlex.split(found["Service"]["ExecStart"])
    if words[1] == "work":
        check_worker(words, float(found["Service"]["TimeoutStopSec"]))
        # Its supervisor tells the workers: a signal to each of them as well would be one too many.
        assert found["Service"]["KillMode"] == "mixed"
    else:
        assert parsed(words)["port"] == 9200


def test_the_program_of_the_readme_keeps_its_store_in_the_state_directory(tmp_path: Path) -> None:
    """With ProtectSystem=strict only the state directory can be written."""
    service = unit("redrive-worker.service")["Service"]
    state = service["WorkingDirectory"]
    assert (state, service["ProtectSystem"]) == (f"/var/lib/{service['StateDirectory']}", "strict")
    program = tmp_path / "srv" / "shop" / "shop" / "jobs.py"
    program.parent.mkdir(parents=True)
    [example] = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    program.write_text(example, "utf-8")
    home = tmp_path / state[1:]
    home.mkdir(parents=True, mode=0o700)
    path = dict(word.split("=", 1) for word in service["Environment"].split())["PYTHONPATH"]
    words = shlex.split(service["ExecStart"])
    done = subprocess.run(
        [sys.executable, "-B", "-m", "redrive", *words[1:3], "--once"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {0, 6}, done.stderr
    assert (home / "redrive.db").is_file()
    assert [file for file in (tmp_path / "srv").rglob("*") if file.is_file()] == [program]


# Docker and Kubernetes


def dockerfile() -> dict[str, list[str]]:
    """The lines of the Dockerfile by instruction."""
    text = (OPS / "docker" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found.setdefault(word, []).append(rest.strip())
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml("docker/compose.yaml")["services"]
    return found


def test_the_image_is_made_of_files_that_there_are() -> None:
    made = dockerfile()
    assert set(made) <= {
        *("FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD")
    }
    for line in made["COPY"]:
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    assert made["USER"] == ["redrive"]
    assert made["EXPOSE"] == ["9200"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", made["RUN"][0])
    assert set(extras.split(",")) == {"postgres", "web", "metrics"}
    served = parsed(json.loads(made["CMD"][0]))
    assert (served["app_name"], served["port"]) == ("examples.summaries:app", 9200)


def test_the_services_run_commands_that_there_are_and_are_checked_alike() -> None:
    services = compose()
    worker, serve = services["worker"], services["serve"]
    stops_after = seconds(worker["stop_grace_period"])
    check_worker(worker["command"], stops_after)
    assert serve["ports"] == ["127.0.0.1:9200:9200"], "for this host only"
    check = serve["healthcheck"]["test"]
    (shown,) = re.findall(r"CMD (\[.*\])", dockerfile()["HEALTHCHECK"][0])
    assert check == ["CMD", *json.loads(shown)]
    assert "http://localhost:9200/api/v1/health" in check[-1]
    for one in (worker, serve):
        context = (OPS / "docker" / one["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / one["build"]["dockerfile"]).exists()


@contextmanager
def serving(directory: Path, database: str) -> Iterator[int]:
    """The command of the image, on a free port of this host's loopback; gives the port."""
    port = free_port()
    here = {"0.0.0.0": "127.0.0.1", "9200": str(port), "/data/tokens": str(directory / "tokens")}
    name, *words = json.loads(dockerfile()["CMD"][0])
    assert name == "redrive"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "redrive", *(here.get(word, word) for word in words)],
            env=os.environ | {"SUMMARIES_DATABASE": database},
            cwd=ROOT,
            stderr=log,
        )
    try:
        until(lambda: b"serving on" in (directory / "log").read_bytes())
        yield port
    finally:
        process.terminate()
        process.wait(20)


def test_the_health_check_runs_by_itself(tmp_path: Path) -> None:
    """R-SUMMARIES 6: the commands of the image and of the compose file; no token is needed."""
    kind, python, *words = compose()["serve"]["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")

    def check(port: int) -> int:
        here = [word.replace("localhost:9200", f"localhost:{port}") for word in words]
        return subprocess.run([sys.executable, *here], check=False, capture_output=True).returncode

    with new_database() as database, serving(tmp_path, database) as port:
        assert check(port) == 0
    assert check(port) != 0


def test_the_probes_ask_what_needs_no_token_and_by_a_name_that_is_known() -> None:
    text = (OPS / "kubernetes" / "redrive.yaml").read_text("utf-8")
    serve, service, worker = yaml.safe_load_all(text)
    (container,) = serve["spec"]["template"]["spec"]["containers"]
    said = parsed(container["args"])
    assert container["ports"][0]["containerPort"] == said["port"] == 9200
    assert service["metadata"]["name"] in said["names"]
    free = {route.path for route in ROUTES if not route.right}
    probes = {name: one["httpGet"] for name, one in container.items() if name.endswith("Probe")}
    assert len(probes) == 3
    assert probes["livenessProbe"]["path"] == "/healthz", "a full queue must not restart it"
    for one in probes.values():
        assert one["path"] in free
        assert one["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    stops_after = worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    check_worker(container["args"], stops_after)
