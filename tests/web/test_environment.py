"""Settings from the environment fail loudly; the secret key is made once and private."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from realm_core.index.choice import MilvusServer
from webapp import environment as settings_environment
from webapp.environment import (
    NEED_RECORDS,
    checkstore,
    envbool,
    envchoice,
    envint,
    envlevel,
    envlist,
    envrate,
    envsearch,
    secret_key,
    without_records,
)
from webapp.settings import _database


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False), ("", False), ("FALSE", False)])
def test_envbool(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("X", text)
    assert envbool("X", not value) is value


def test_what_is_not_there_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("X", raising=False)
    assert envbool("X", True) is True
    assert envint("X", 7) == 7
    assert envlist("X", ["a"]) == ["a"]
    assert envrate("X", "5/min") == "5/min"
    assert envchoice("X", "auto", ("auto", "exact")) == "auto"


@pytest.mark.parametrize("text", ["ture", "2"])
def test_a_bool_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("X", text)
    with pytest.raises(ImproperlyConfigured, match="X must be true or false"):
        envbool("X", False)


@pytest.mark.parametrize(("text", "said"), [("many", "whole number"), ("1.5", "whole number"), ("-1", "at least 0")])
def test_text_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setenv("X", text)
    with pytest.raises(ImproperlyConfigured, match=said):
        envint("X", 0)


def test_a_number_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "20")
    assert envint("X", 0, maximum=20) == 20
    with pytest.raises(ImproperlyConfigured, match="X must be at most 19, not 20"):
        envint("X", 0, maximum=19)


def test_a_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, level in (("debug", "DEBUG"), (" ERROR ", "ERROR"), ("", "INFO")):
        monkeypatch.setenv("X", text)
        assert envlevel("X", "INFO") == level
    monkeypatch.setenv("X", "loud")
    with pytest.raises(ImproperlyConfigured, match="X must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not 'loud'"):
        envlevel("X", "INFO")


@pytest.mark.parametrize("text", ["hnsw", "Exact"])
def test_a_word_that_is_none_of_them(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("X", text)
    with pytest.raises(ImproperlyConfigured, match=f"X must be one of auto, exact, not '{text}'"):
        envchoice("X", "auto", ("auto", "exact"))


@pytest.mark.parametrize("text", ["60", "0/min", "60/week", "x/min", "-1/min"])
def test_a_rate_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("X", text)
    with pytest.raises(ImproperlyConfigured, match="60/min"):
        envrate("X", "1/s")


def test_values_are_parsed_without_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", " a, b,,")
    assert envlist("X", []) == ["a", "b"]
    monkeypatch.setenv("X", "12")
    assert envint("X", 0) == 12
    monkeypatch.setenv("X", " exact ")
    assert envchoice("X", "auto", ("auto", "exact")) == "exact"
    monkeypatch.setenv("X", "0")
    assert envrate("X", "1/s") == "0"


def test_a_database_server_that_is_gone_is_noticed_within_seconds() -> None:
    options = _database("postgres://realm@host/realm?sslmode=require&connect_timeout=2")["OPTIONS"]
    conninfo = conninfo_to_dict(make_conninfo(**options))  # raises for what libpq does not know
    assert conninfo["sslmode"] == "require" and conninfo["connect_timeout"] == "2"  # what the address says holds
    silence_s = options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"]
    assert options["keepalives"] and silence_s <= 25 and options["tcp_user_timeout"] <= 25_000


def test_the_secret_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(secret_key(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*keys, secret_key(path)} == {keys[0]} and len(keys) == 4 and len(keys[0]) >= 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret_key"]


def test_a_broken_secret_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("")
    with pytest.raises(ImproperlyConfigured, match="should hold a secret key"):
        secret_key(tmp_path / "secret_key")


@pytest.mark.parametrize(("said", "status"), [("", 1), ("0", 0)])
def test_a_server_in_production_must_say_whether_it_is_open(tmp_path: Path, said: str, status: int) -> None:
    environment = {**os.environ, "REALM_DATA": str(tmp_path), "HTTPS": "on", "REALM_PUBLIC": said}
    command = [sys.executable, "-c", "import webapp.settings"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == status and ("REALM_PUBLIC must say" in process.stderr) is bool(status)


def test_a_data_folder_that_a_command_makes_is_its_owner_s_alone(tmp_path: Path) -> None:
    environment = {**os.environ, "REALM_DATA": str(tmp_path / "made")}
    subprocess.run([sys.executable, "-c", "import webapp.settings"], env=environment, check=True)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


def test_a_store_is_an_address_and_children_know_the_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REALM_DATA", "")
    checkstore(tmp_path)
    assert os.environ["REALM_DATA"] == ""  # nothing is shared
    monkeypatch.setenv("REALM_STORE", "s3://bucket/realm")
    checkstore(tmp_path)
    assert os.environ["REALM_DATA"] == str(tmp_path)
    monkeypatch.setenv("REALM_STORE", "bucket")
    with pytest.raises(ImproperlyConfigured, match="REALM_STORE must be an address"):
        checkstore(tmp_path)


def test_where_blocks_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REALM_SEARCH", "REALM_MILVUS_URI", "REALM_MILVUS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert envsearch() == "auto"
    monkeypatch.setenv("REALM_SEARCH", "ivf")
    assert envsearch() == "ivf"
    monkeypatch.setenv("REALM_SEARCH", "milvus")
    with pytest.raises(ImproperlyConfigured, match="needs REALM_MILVUS_URI"):
        envsearch()
    monkeypatch.setenv("REALM_MILVUS_URI", "vectors.db")
    with pytest.raises(ImproperlyConfigured, match=r"REALM_MILVUS_URI: The address .* not 'vectors\.db'"):
        envsearch()
    monkeypatch.setenv("REALM_MILVUS_URI", "http://milvus:19530")
    monkeypatch.setenv("REALM_MILVUS_TOKEN", "root:secret")
    assert envsearch() == MilvusServer("http://milvus:19530", "root:secret")


def manage(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"REALM_DATA": str(data)}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("there", ["nothing", "an empty database"])
def test_a_command_that_finds_no_records_says_where_it_looked_and_makes_nothing(tmp_path: Path, there: str) -> None:
    data = tmp_path / "data"
    if there != "nothing":  # as an earlier version left it
        data.mkdir()
        (data / "db.sqlite3").touch()
    before = sorted(tmp_path.rglob("*"))
    ran = manage(data, "ask", "Who?")
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    assert f"The data folder {data} has no records" in ran.stderr
    assert "REALM_DATA=/the/folder manage.py ask …" in ran.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_every_command_of_ours_but_restore_needs_records() -> None:
    ours = {
        path.stem for path in (Path(settings_environment.__file__).parent / "management/commands").glob("[a-z]*.py")
    }
    assert ours - NEED_RECORDS == {"restore"}  # into a database whose tables are made before


def test_a_command_that_needs_no_records_runs_without_and_help_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("REALM_DATA", str(tmp_path))
    assert without_records(["migrate"]) == without_records([]) == without_records(["ask", "--help"]) == ""
    assert without_records(["ask", "Who?"])
    monkeypatch.setenv("DATABASE_URL", "postgres://realm@host/realm")  # says itself whether it is there
    assert without_records(["ask", "Who?"]) == ""
