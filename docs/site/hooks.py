"""What mkdocs cannot do by itself: the README as the first page, and links to files of the repository.

Pages link to each other as they lie in the repository, so that they can be read there. Whatever they
link to outside of `docs` comes along under `source/`.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = {"index.md": "README.md", "ja/README.md": "README.ja.md"} | {
    name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
MADE = {"cli.md": "commands", "api.md": "api", "reference/python.md": "python"}
"""Pages that end with a reference which `docs/reference` makes from the code."""
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")


def origin(page: str) -> Path:
    """Give the file of the repository that a page of the site is made from."""
    return ROOT / TOP[page] if page in TOP else DOCS / page


def place(target: Path) -> str:
    """Give where a file of the repository lies in the site."""
    for page, name in TOP.items():
        if target == ROOT / name:
            return page
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    return f"source/{target.relative_to(ROOT).as_posix()}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from above, and every file outside that a page links to."""
    for page, name in TOP.items():
        if (ROOT / name).is_file():
            files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    pages = [file.src_uri for file in files.documentation_pages()]
    for page in pages:
        source = origin(page)
        for _, link, _ in LINK.findall(source.read_text("utf-8")):
            target = (source.parent / link).resolve()
            there = place(target)
            if there.startswith("source/") and files.get_file_from_path(there) is None:
                files.append(File.generated(config, there, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let each link lead to where its file lies in the site."""
    here = page.file.src_uri
    source = origin(here)

    def lead(found: re.Match[str]) -> str:
        there = place((source.parent / found[2]).resolve())
        return found[1] + posixpath.relpath(there, posixpath.dirname(here) or ".") + found[3]

    made = (
        runpy.run_path(str(DOCS / "reference" / f"{MADE[here]}.py"))["page"]()
        if here in MADE
        else ""
    )
    return f"{LINK.sub(lead, markdown)}\n\n{made}"
