"""A payload is edited, checked, shown as a diff and kept as a new version."""

from __future__ import annotations

import json
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptykit import on_terminal
from redrive.errors import BadPayload
from redrive.payloads.editing import restored, shown
from shopkit import TIMEOUT, Shop, dead_letter, name
from tablekit import each_row

TRICKY = (
    '{"price":10.10,"big":9223372036854775809,"tiny":1e-9,"deep":[{"password":"alpha123","n":1},'
    '{"password":"beta4567","n":2}],"note":"pw is alpha123","odd":"\\u001b[2J","雪":true,"e":{}}'
)


def payload_of(shop: Shop, number: int = 1) -> str:
    with shop.app() as app:
        return app.get(name(number)).payload


def edits_of(shop: Shop, number: int = 1) -> int:
    with shop.app() as app:
        return app.get(name(number)).edits


@pytest.fixture
def editor(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that runs what is written into this file; `text` is what it was given."""
    script = Path("editor.py")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script.absolute()}")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("TMPDIR", str(shop.folder))  # kept texts stay in the test's own place
    monkeypatch.setattr(tempfile, "tempdir", str(shop.folder))
    return script


def types(editor: Path, change: str) -> None:
    editor.write_text(
        "import sys, os, stat; from pathlib import Path\n"
        "p = Path(sys.argv[1]); text = p.read_text()\n"
        "Path('seen').write_text(f'{p}\\n{stat.S_IMODE(p.stat().st_mode):o}\\n{text}')\n"
        f"{change}\n"
        "p.write_text(text)\n"
    )


def test_a_file_becomes_the_new_payload_and_the_first_is_kept(shop: Shop) -> None:
    Path("new.json").write_text('{ "to": "bob@example.com", "password": "hunter22" }')
    done = shop.run("edit", name(1), "--payload", "new.json", "--yes", "--reason", "typo", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)["data"]
    assert (data["id"], data["version"], data["saved"]) == (name(1), 2, True)
    assert '-  "to": "ada@example.com",' in data["diff"]
    assert "hunter22" not in done.output
    with shop.app() as app:
        job = app.get(name(1))
    assert job.payload == '{"to":"bob@example.com","password":"hunter22"}'
    assert job.original == '{"to":"ada@example.com","password":"hunter22"}'
    [action] = json.loads(shop.run("log", "--json").stdout)["data"]
    assert (action["verb"], action["target"], action["reason"]) == ("edit", name(1), "typo")


def test_the_editor_sees_masks_and_the_secret_stays(shop: Shop, editor: Path) -> None:
    types(editor, "text = text.replace('ada@', 'eve@')")
    done = shop.run("edit", name(1), "--yes")
    assert done.exit_code == 0, done.output
    assert payload_of(shop) == '{"to":"eve@example.com","password":"hunter22"}'
    place, mode, *text = Path("seen").read_text().splitlines()
    assert mode == "600"
    assert "hunter22" not in "".join(text)
    assert '"password": "•••"' in "".join(text)
    assert not Path(place).exists()


def test_the_editor_sees_secrets_when_asked_to(shop: Shop, editor: Path) -> None:
    types(editor, "text = text.replace('hunter22', 'hunter33')")
    done = shop.run("edit", name(1), "--yes", "--reveal")
    assert done.exit_code == 0
    assert payload_of(shop) == '{"to":"ada@example.com","password":"hunter33"}'
    assert "hunter" not in done.output
    assert "only hidden values" in done.stdout


@each_row(
    "change, words",
    [
        ("text = '{'", "not JSON"),
        ("text = '[1]'", "object"),
        ('text = \'{"a":1,"a":2}\'', "twice"),
        ("text = text.replace('ada@', 'x •••')", "write the value itself"),
    ],
)
def test_what_cannot_be_accepted_is_kept_in_its_file(
    shop: Shop, editor: Path, change: str, words: str
) -> None:
    types(editor, change)
    done = shop.run("edit", name(1), "--yes")
    assert done.exit_code == 2
    assert words in done.stderr
    place = Path(done.stderr.partition("kept in ")[2].splitlines()[0])
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert edits_of(shop) == 0


@each_row("change", ["", "text = ' ' + text", "sys.exit(3)"])
def test_nothing_changed_is_nothing_saved(shop: Shop, editor: Path, change: str) -> None:
    types(editor, change)
    done = shop.run("edit", name(1), "--yes")
    assert done.exit_code == 1
    assert edits_of(shop) == 0


def test_an_editor_that_is_not_there_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor -w")
    done = shop.run("edit", name(1), "--yes")
    assert done.exit_code == 2
    assert "no-such-editor" in done.stderr


def test_who_was_slower_is_told_and_keeps_the_text(shop: Shop, editor: Path) -> None:
    """The second of two editors must not undo what the first saved."""
    types(
        editor,
        "from redrive import Redrive\n"
        f"with Redrive('redrive.db') as app: app.desk.edit('{name(1)}', '{{\"first\": 1}}')\n"
        "text = text.replace('ada@', 'eve@')",
    )
    done = shop.run("edit", name(1), "--yes")
    assert done.exit_code == 4, done.output
    assert payload_of(shop) == '{"first":1}'
    assert "your text is kept in " in done.stderr


def test_a_job_in_the_wrong_state_is_a_conflict_and_a_missing_one_is_not_found(shop: Shop) -> None:
    Path("new.json").write_text('{"x":1}')
    assert shop.run("edit", name(7), "--payload", "new.json", "--yes").exit_code == 4
    assert shop.run("edit", "01ZZZZ", "--payload", "new.json", "--yes").exit_code == 3


def test_a_secret_that_changes_its_name_is_hidden_in_the_difference(shop: Shop) -> None:
    Path("new.json").write_text('{"to":"ada@example.com","pin":"hunter22"}')
    done = shop.run("edit", name(1), "--payload", "new.json", "--yes")
    assert done.exit_code == 0
    assert '+  "pin": "•••"' in done.stdout
    assert "hunter22" not in done.output
    assert shop.run("edit", name(2), "--payload", "", "--yes").exit_code == 1  # no editor instead


def test_what_show_prints_can_be_edited_and_written_back(shop: Shop) -> None:
    """A hidden value is known by its place; nothing is ever stored with a mask in it."""
    shown = json.loads(shop.run("show", name(1), "--payload", "--json").stdout)["data"]
    assert shown["password"] == "•••"
    text = json.dumps({**shown, "to": "bob@example.com"})
    done = shop.run("edit", name(1), "--payload", "-", "--yes", stdin=text)
    assert done.exit_code == 0, done.output
    assert payload_of(shop) == '{"to":"bob@example.com","password":"hunter22"}'
    done = shop.run("edit", name(1), "--payload", "-", "--yes", stdin=text)
    assert (done.exit_code, edits_of(shop)) == (1, 1), "it is as it was"


@each_row("text", ['{"to":"•••","password":"x"}', '{"note":"•••","password":"•••"}'])
def test_a_mask_in_another_field_is_refused(shop: Shop, text: str) -> None:
    done = shop.run("edit", name(1), "--payload", "-", "--yes", stdin=text)
    assert done.exit_code == 2
    assert "--reveal" in done.stderr
    assert edits_of(shop) == 0


def test_revealing_is_recorded(shop: Shop, editor: Path) -> None:
    types(editor, "")
    shop.run("edit", name(1), "--reveal", "--dry-run")
    (act,) = json.loads(shop.run("log", "--json").stdout)["data"]
    assert (act["verb"], act["target"]) == ("reveal", name(1))


def test_without_a_terminal_nothing_is_recorded_as_revealed(shop: Shop, editor: Path) -> None:
    types(editor, "")
    done = shop.run("edit", name(1), "--reveal")
    assert (done.exit_code, "--yes" in done.stderr) == (2, True)
    assert json.loads(shop.run("log", "--json").stdout)["data"] == []


def test_a_dry_run_saves_nothing(shop: Shop) -> None:
    done = shop.run("edit", name(1), "--payload", "-", "--dry-run", stdin='{"to":"bob"}')
    assert done.exit_code == 0
    assert "would be version 2" in done.stdout
    assert edits_of(shop) == 0


PROGRAM = """
from redrive import Redrive
app = Redrive("elsewhere.db")
@app.handler("mail.send")
def send(to: str, password: str, when: int = 0): ...
"""


def test_the_handler_must_accept_it_where_the_program_is_known(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("edit_program.py").write_text(PROGRAM)
    Path("redrive.toml").write_text('app = "edit_program:app"\n')
    wrong = shop.run("edit", name(1), "--payload", "-", "--yes", stdin='{"to":"bob"}')
    assert wrong.exit_code == 2
    assert "password" in wrong.stderr
    right = shop.run(
        "edit", name(1), "--payload", "-", "--yes", stdin='{"to":"bob","password":"pw"}'
    )
    assert right.exit_code == 0, right.output
    assert not Path("elsewhere.db").exists()


def test_a_terminal_sees_the_difference_and_is_asked(shop: Shop, editor: Path) -> None:
    types(editor, "text = text.replace('ada@', 'eve@')")
    no = on_terminal("edit", name(1), typed=b"n\n")
    assert (no.code, edits_of(shop)) == (1, 0)
    assert '+  "to": "eve@example.com"' in no.text
    yes = on_terminal("edit", name(1), typed=b"y\n")
    assert (yes.code, edits_of(shop)) == (0, 1)
    assert f"next: redrive retry {name(1)}" in yes.text


def test_masks_that_are_left_alone_keep_what_they_hide() -> None:
    text = shown(TRICKY)
    assert "alpha" not in text
    assert "beta" not in text
    assert json.loads(restored(TRICKY, text)) == json.loads(TRICKY)
    value = json.loads(text)
    value["price"] = 1
    value["deep"][0]["n"] = 5
    del value["e"]
    back = json.loads(restored(TRICKY, json.dumps(value)))
    assert back["deep"][0] == {"password": "alpha123", "n": 5}
    assert back["note"] == "pw is alpha123"
    del value["deep"][1]
    value["deep"][0]["n"] = 1
    back = json.loads(restored(TRICKY, json.dumps(value)))
    assert back["deep"] == [{"password": "alpha123", "n": 1}]


MOVES: dict[str, Callable[[Any], object]] = {
    "to another field": lambda value: value.update(other="•••"),
    "to a field that is not hidden": lambda value: value.update(price="•••"),
    "to a name": lambda value: value.update({"•••": 1}),
    "deeper": lambda value: value.update(e={"password": "•••"}),
    "into a list": lambda value: value.update(e=["•••"]),
    "to another position": lambda value: value["deep"].reverse(),
    "up by a deletion": lambda value: value["deep"].pop(0),
    "down by an insertion": lambda value: value["deep"].insert(0, {}),
    "to a renamed field": lambda value: value["deep"][0].update(
        pw=value["deep"][0].pop("password")
    ),
    "into a text": lambda value: value.update(odd="see •••"),
    "beside a text": lambda value: value.update(note=value["note"] + "!"),
    "into a name": lambda value: value.update({"a •••": 1}),
}


def test_a_mask_stands_for_its_value_at_its_own_path_only() -> None:
    """Anywhere else a view would show it, or it would stand for another value."""
    for label, move in MOVES.items():
        value = json.loads(shown(TRICKY))
        move(value)
        with pytest.raises(BadPayload, match="leave each mask as it was") as refused:
            restored(TRICKY, json.dumps(value))
        assert "alpha" not in str(refused.value), label
        assert "beta" not in str(refused.value), label


def test_of_values_that_look_alike_none_can_be_removed() -> None:
    alike = '{"rows":[{"token":"alpha123"},{"token":"beta4567"},{"token":"gamma890"}]}'
    value = json.loads(shown(alike))
    del value["rows"][1]
    with pytest.raises(BadPayload, match="--reveal"):
        restored(alike, json.dumps(value))
    names = '{"a":{"sk-ant-REDACTED-1":1,"sk-ant-REDACTED-2":2}}'
    with pytest.raises(BadPayload, match="--reveal"):
        restored(names, shown(names))


def test_a_hidden_name_keeps_its_place_too() -> None:
    text = '{"a":{"sk-ant-REDACTED":{"password":"alpha123"}},"b":{}}'
    assert restored(text, shown(text)) == text
    value = json.loads(shown(text))
    value["b"], value["a"] = value["a"], value["b"]
    with pytest.raises(BadPayload, match=r"payload\.b\."):
        restored(text, json.dumps(value))


def test_a_text_stays_hidden_while_the_secret_in_it_is_replaced() -> None:
    """With another password beside it, the note would show the old one."""
    text = '{"password":"alpha123","note":"pw is alpha123"}'
    value = json.loads(shown(text))
    value["password"] = "else"
    with pytest.raises(BadPayload, match="another field"):
        restored(text, json.dumps(value))
    value["note"] = "new"
    assert json.loads(restored(text, json.dumps(value))) == {"password": "else", "note": "new"}


def test_a_payload_that_has_a_mask_keeps_it() -> None:
    text = '{"a":"•••","token":"abcd1234"}'
    assert restored(text, shown(text)) == text


def test_text_that_is_no_json_is_refused() -> None:
    for text in ("{", "[" * 100_000):
        with pytest.raises(BadPayload):
            restored('{"token":"abcd1234"}', text)


def test_a_payload_that_cannot_be_read_is_mended(shop: Shop, editor: Path) -> None:
    """In the editor, which sees it masked, or by a file."""
    shop.add(dead_letter(9, payload='{"password":"hunter22",'))
    types(editor, "assert 'hunter22' not in text; text = '{\"to\":\"eve\"}'")
    assert shop.run("edit", name(9), "--yes").exit_code == 0
    assert payload_of(shop, 9) == '{"to":"eve"}'
    done = shop.run("edit", name(9), "--payload", "-", "--yes", stdin='{"to":"bob"}')
    assert done.exit_code == 0, done.output
    assert payload_of(shop, 9) == '{"to":"bob"}'


def test_the_difference_hides_the_secrets_of_the_first_payload(shop: Shop) -> None:
    old = {"to": "ada", "password": "Old9-opaque-11y", "note": "try Old9-opaque-11y"}
    new = {**old, "password": "New9-opaque-22z"}
    fields = {"payload": json.dumps(new), "original": json.dumps(old), "edits": 1}
    with shop.app() as app:
        app.store.add([dead_letter(90, TIMEOUT, **fields)])
    Path("new.json").write_text(json.dumps({"to": "eve", "password": "•••", "note": "try •••"}))
    done = shop.run("edit", name(90), "--payload", "new.json", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "eve" in done.output
    assert "opaque" not in done.output
