"""Train and measure the rows of the paper's table."""

from __future__ import annotations

from typing import Any

from realm_core.files import disk_errors
from realm_core.training.ablation import AblationConfig
from webapp.kinds.settings import AblateSettings
from webapp.models import Job
from workers.kinds.base import Kind, excluded_titles, given, path_of


def command(job: Job) -> list[str]:
    """Everything lies in the run folder; what is made on the way is for the table alone."""
    parameters = given(job)
    settings: AblateSettings = parameters.settings[AblateSettings]
    config = job.run_dir / "ablation.toml"
    with disk_errors(config):
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(AblationConfig.of(parameters.settings).in_toml(), encoding="utf-8")
    return [
        *("realm_core", "ablate"),
        f"--model={path_of(parameters['model'])}",
        f"--corpus={path_of(parameters['corpus'])}",
        f"--spans={path_of(parameters['spans'])}",
        f"--config={config}",
        f"--output={job.run_dir / 'ablation'}",
        f"--exclude-titles={excluded_titles(job)}",
        *("--questions", *(path_of(one) for one in parameters["questions"])),
        *("--dev", *(path_of(one) for one in parameters["dev"])),
        *("--rows", *settings.rows),
    ]


def record(_job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The table is the result; the commands that made it lie in the run folder, with their paths.

    questions becomes a list of (name, how many), because a database may keep an object's keys in another order.
    """
    stages = [{name: value for name, value in one.items() if name != "command"} for one in result["stages"]]
    return {**result, "questions": list(result["questions"].items()), "stages": stages}


KIND = Kind(command=command, record=record, devices=2)  # one for what trains, one for the builder of its index
