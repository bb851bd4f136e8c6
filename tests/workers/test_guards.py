"""What is refused before anything starts, and in what words."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from workers import bootstrap, guards
from workers.refusal import Refusal
from workers.services import environment_for, socket_path


@pytest.mark.parametrize("text", ["zero", "0", "65536", "-1", "80.0"])
def test_a_port_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    with pytest.raises(Refusal, match="PORT must be a number from 1 to 65535"):
        guards.chosen_port()


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(100, 95, 5 << 20))
    with pytest.raises(Refusal, match=r"has 5 MiB left, and 500 MiB are needed\. Free some space"):
        guards.check_room_for_data(tmp_path / "not" / "there" / "yet")
    (tmp_path / "indexes" / "one").mkdir(parents=True)
    with pytest.raises(Refusal, match=r"has 5 MiB left, and 20 MiB are needed"):
        guards.check_room_for_data(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(100, 95, 25 << 20))
    guards.check_room_for_data(tmp_path)


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="REALM_DATA names another"), guards.data_lock(tmp_path / "file"):
        pass


def test_a_data_folder_that_is_made_is_its_owner_s_alone(tmp_path: Path) -> None:
    with guards.data_lock(tmp_path / "made"):
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    tmp_path.chmod(0o750)
    with guards.data_lock(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o750, "whoever made it has decided who may read it"


def test_a_python_that_is_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bootstrap, "MINIMUM_PYTHON", (99, 0))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert bootstrap.main(["run"]) == 1
    assert "make run PYTHON=" in capsys.readouterr().err


def test_a_newer_python_of_the_machine_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(bootstrap, "MINIMUM_PYTHON", (99, 0))
    monkeypatch.setattr(shutil, "which", lambda name: "/opt/python3.13" if name == "python3.13" else None)
    monkeypatch.setattr(bootstrap.os, "execv", lambda *call: calls.append(call))
    monkeypatch.setattr(bootstrap.sys, "argv", ["bootstrap.py", "run"])
    with pytest.raises(Refusal):  # in truth execv does not return
        bootstrap.use_new_enough_python()
    assert ("/opt/python3.13", ["/opt/python3.13", "-m", "workers.bootstrap", "run"]) in calls


def test_the_socket_of_a_deep_data_folder_lies_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    path = socket_path(deep)
    assert len(str(path)) < 100
    assert path == socket_path(deep)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    environment, embedded = environment_for(deep, {"PATH": "/bin"})
    assert embedded
    assert environment["BROKER_URL"] == f"redis+socket://{path}"
    path.parent.rmdir()


def test_servers_of_ones_own_need_no_embedded_broker(tmp_path: Path) -> None:
    given = {"BROKER_URL": "redis://a/0", "CACHE_URL": "redis://a/1"}
    environment, embedded = environment_for(tmp_path, given)
    assert not embedded
    assert environment["BROKER_URL"] == "redis://a/0"
