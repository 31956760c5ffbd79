"""A store that a function names when it is opened, for settings that are complete only by then."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive import Redrive, config


def test_the_function_is_called_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    monkeypatch.chdir(tmp_path)
    app = Redrive(lambda: names[0])
    names.append("late.db")
    with app:
        assert app.store.now() > 0
    assert (tmp_path / "late.db").is_file()
    assert "late.db" in repr(app)


def test_the_settings_of_a_framework_win_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "_framework", [*config._framework])
    config.use_framework(lambda: "memory:", "shop:app", "DATABASES")
    found = config.find(environ={"REDRIVE_STORE": "other.db"})
    assert (found.store, found.source, found.app) == ("memory:", "DATABASES", "shop:app")
    assert config.find(store="named.db").source == "--store"
