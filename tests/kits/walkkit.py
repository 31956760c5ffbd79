"""Walks a page as a reader would: files are written, programs and commands run, in order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml|ini|yaml|jsonl|csv))\n")
LIBRARIES = re.compile(r"^(?:from|import) (celery|django|fastapi|flask|sqlalchemy)\b", re.MULTILINE)
EXIT = re.compile(r"\s+# exit (\d+)$")
SETTING = re.compile(r"([A-Z_]+)=(.*)")


def pages() -> list[Path]:
    """Return the pages whose blocks build on each other."""
    top = ROOT / "docs"
    rest = sorted([*(top / "howto").glob("*.md"), *(top / "users").glob("*.md")])
    return [*(top / f"{name}.md" for name in ("quickstart", "runbook", "import")), *rest]


def needs(page: Path) -> set[str]:
    """Return the libraries that a page's programs import and the tests' environment does not have."""
    return {*LIBRARIES.findall(page.read_text("utf-8"))}


def can_walk(page: Path) -> bool:
    """Return True if this environment has all that a page's programs import."""
    return all(find_spec(name) for name in needs(page))


@dataclass
class Walk:
    """One reader, in a directory of their own."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    as_processes: bool = True
    """Whether commands are run as a reader's shell does, rather than in this process."""

    def page(self, path: Path) -> int:
        """Do everything on the page; give how much there was."""
        blocks = BLOCK.findall(path.read_text("utf-8"))
        return sum(self.block(language, body) for language, body in blocks)

    def block(self, language: str, body: str) -> int:
        named = NAMED.match(body)
        if named:
            file = self.folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                body[named.end() :] if file.suffix in {".jsonl", ".csv"} else body, "utf-8"
            )
            return 1
        if language == "python":
            self.run([sys.executable, "-W", "error", "-c", body], 0)
            return 1
        return self.commands(body) if language == "console" else 0

    def commands(self, body: str) -> int:
        """Run each line after a `$`; what stands below it is what it must say."""
        done = 0
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            code = EXIT.search(line)
            words = shlex.split(line, comments=True)
            said = self.run(words, int(code[1]) if code else 0)
            check(line, expected, said)
            done += 1
        return done

    def run(self, words: list[str], code: int) -> str:
        environ = {**os.environ, "PYTHONPATH": str(self.folder), **self.environ}
        environ.pop("REDRIVE_STORE", None)
        while setting := SETTING.fullmatch(words[0]):
            environ[setting[1]] = setting[2]
            words = words[1:]
        start = {"redrive": [sys.executable, "-m", "redrive"], "python": [sys.executable]}
        if words[0] == "redrive" and not self.as_processes:
            return self.run_here(words, environ, code)
        first = [words[0]] if words[0] == sys.executable else start[words[0]]
        done = subprocess.run(
            [*first, *words[1:]],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_here(self, words: list[str], environ: dict[str, str], code: int) -> str:
        """Run a command of ours in this process, and forget the programs that it imported."""
        import pytest  # noqa: PLC0415 - where pages are walked as processes there is none
        from click.testing import CliRunner  # noqa: PLC0415

        from redrive.cli._root import root  # noqa: PLC0415

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.syspath_prepend(self.folder)
            for name in {*environ, "REDRIVE_STORE"}:
                patch.setenv(name, environ[name]) if name in environ else patch.delenv(name, False)
            known = {*sys.modules}
            done = CliRunner().invoke(root, words[1:])
            for name in {*sys.modules} - known:
                file = getattr(sys.modules[name], "__file__", None) or ""
                if file.startswith(str(self.folder)):
                    del sys.modules[name]
        assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.output}"
        return done.stdout


def check(line: str, expected: str, said: str) -> None:
    """Compare what a command says with the page; `…` stands for anything, also for many lines.

    Spaces are not compared: a page shows what a terminal does, a pipe has tabs.
    """
    wanted, found = " ".join(expected.split()), " ".join(said.split())
    pattern = ".*?".join(re.escape(part.strip()) for part in wanted.split("…"))
    assert not wanted or re.fullmatch(pattern, found), (
        f"{line}\n-- page: {wanted}\n-- said: {found}"
    )


def main() -> None:
    """Walk the pages that need more than the tests have, as far as this environment has it.

    `make docs` calls this; `make test-frameworks` walks those that need a database.
    """
    for page in pages():
        if needs(page) and can_walk(page):
            with TemporaryDirectory() as folder:
                done = Walk(Path(folder)).page(page)
            sys.stdout.write(f"{page.relative_to(ROOT)}: {done} blocks run\n")


if __name__ == "__main__":
    main()
