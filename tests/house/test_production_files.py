"""compose.yaml, Dockerfile and entry point agree with one another and with what `make run` starts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from workers import services

TOP = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((TOP / "compose.yaml").read_text(encoding="utf-8"))
OURS = {name: one for name, one in COMPOSE["services"].items() if one["image"].startswith("realm-qa:")}
ENTRYPOINT = (TOP / "docker" / "entrypoint.sh").read_text(encoding="utf-8")


def command(part: str) -> list[str]:
    """What the entry point runs for a part, as words."""
    found = re.search(rf"^{part}\)\n(.*?);;", ENTRYPOINT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", " ").split()[1:]


def test_parts_are_started_as_make_run_starts_them() -> None:
    for part, service in (("worker", services.worker()), ("scheduler", services.scheduler())):
        assert command(part) == ["python", *service.command[1:]]
    varying = ("--bind", "--workers", "--threads", "--graceful-timeout", "--worker-tmp-dir")
    web = [word for word in services.web(8000).command[1:] if not word.startswith(varying)]
    assert [word for word in command("web")[1:] if not word.startswith(varying)] == web


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
        assert sorted(queues) == ["default", "index", "train"]


def test_variables_are_known_to_the_programs() -> None:
    known = (TOP / "webapp" / "settings.py").read_text(encoding="utf-8")
    known += (TOP / "workers" / "app.py").read_text(encoding="utf-8") + ENTRYPOINT
    for one in OURS.values():
        for name in one["environment"]:
            assert name in known, name
