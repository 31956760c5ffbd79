"""Take the pictures of the command line: `python docs/images/shoot.py` writes the SVG files here.

A store is filled as in a bad night, the real program runs on a terminal of 80 and of 140 columns, and
what it wrote is drawn. Nothing else is needed than what the tests need.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from redrive import Policy, Redrive

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tests" / "kits"))

from ptykit import on_terminal  # noqa: E402 - it is found only now

PROGRAM = """
import os, time
from redrive import Policy, Redrive

app = Redrive(os.environ["REDRIVE_STORE"], policy=Policy(attempts=1))

@app.handler("billing.charge")
def charge(customer: int, region: str) -> None:
    time.sleep(0.03)
    if customer % 60 == 7:
        raise PermissionError("card of customer refused: expired")

@app.handler("billing.refund")
def refund(customer: int, region: str) -> None:
    charge(customer, region)
"""


def night(url: str) -> Redrive:
    """Let jobs of three causes die."""
    app = Redrive(url, policy=Policy(attempts=1), actor="mira")

    @app.handler("billing.charge")
    def charge(customer: int, region: str) -> None:
        raise ConnectionError(f"api.stripe.example:443 timed out for {customer} ({region})")

    @app.handler("billing.pdf")
    def pdf(invoice: str) -> None:
        {"number": invoice}["vat_id"]

    @app.handler("billing.refund")
    def refund(customer: int, region: str) -> None:
        raise ConnectionError(f"api.stripe.example:443 refused {customer} ({region})")

    @app.handler("invoice.send")
    def send(recipient: str) -> None:
        raise ValueError(f"宛先が正しくありません: {recipient}")

    for n in range(465):
        charge.submit(n, "us" if n % 40 == 0 else "eu")
    for n in range(206):
        refund.submit(n, "eu")
    for n in range(15):
        pdf.submit(f"I-{n}")
    for n in range(6):
        send.submit(f"田中{n}")
    app.run_due()
    return app


def draw(name: str, command: str, raw: bytes, width: int) -> None:
    """Draw what a terminal was sent; of a bar only how it looked last."""
    shown = raw.decode().replace("\r\n", "\n").replace(__file__, "/srv/shop/billing.py")
    here, there = str(Path.cwd()), "/srv/shop"
    line = "─" * (len(here) - len(there))  # the frame around a shorter path
    shown = shown.replace(f"{here}/jobs.db ─", f"{there}/jobs.db ─{line}").replace(here, there)
    lines = [line.rpartition("\x1b[2K")[2] for line in shown.split("\n")]
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere, color_system="truecolor")
        console.print(Text.from_ansi(f"\x1b[1m$ redrive {command}\x1b[0m\n" + "\n".join(lines)))
        drawn = console.export_svg(title="redrive")
    # Without the fonts that it would fetch from elsewhere.
    drawn = re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)
    (HERE / f"{name}-{width}.svg").write_text(
        drawn.replace("Fira Code, ", "").replace("<text ", '<text xml:space="preserve" '), "utf-8"
    )


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        url = "jobs.db"
        os.environ["REDRIVE_STORE"] = url
        app = night(url)
        newest = app.desk.jobs.find(state="dead", by_change=True, limit=1).jobs[0].id
        commands = {
            "status": ["status"],
            "groups": ["groups"],
            "group": ["group", "G1"],
            "show": ["show", newest],
        }
        for width in (80, 140):
            for name, words in commands.items():
                draw(name, " ".join(words), on_terminal(*words, width=width).raw, width)
        Path("billing.py").write_text(PROGRAM)
        worker = subprocess.Popen(
            [sys.executable, "-m", "redrive", "work", "billing:app", "--concurrency", "2"],
            stderr=subprocess.DEVNULL,
        )
        try:
            for group, width in (("G1", 140), ("G2", 80)):
                draw_run(group, width)
        finally:
            worker.terminate()
            worker.wait()


def draw_run(group: str, width: int) -> None:
    """Draw a run in progress: as it looked when half of it was done."""
    words = ["retry", group, "--canary", "3", "--rate", "40/s", "--name", "stripe outage", "--wait"]
    shown = on_terminal(*words, "--yes", width=width)
    frames = shown.raw.split(b"\r\x1b[2K")
    total = int(re.findall(rb"retries (\d+) jobs", shown.raw)[0])
    done = [int((re.findall(rb"R\d (\d+) ok", frame) or [b"0"])[0]) for frame in frames]
    half = next(n for n, number in enumerate(done) if number > total / 2)
    draw("run", shlex.join(words), b"\r\x1b[2K".join(frames[: half + 1]), width)


if __name__ == "__main__":
    main()
