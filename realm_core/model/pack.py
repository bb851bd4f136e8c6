"""Quantises a model, or changes its reading options: `python -m realm_core pack`.

Parts are stored in float16, in int8 with a scale per row, or (reader and query embedder) as a four-bit difference from
the base weights. Normalisation and the minimum probability of an answer can be set at the same time; `calibrate`
measures the latter.
"""

from __future__ import annotations

import dataclasses

from realm_core.files import refuse_existing
from realm_core.model.checkpoint import Storage, load_model, save_model
from realm_core.model.tasks import OWN, Export
from realm_core.runs.activity import Activity


def main(task: Export, activity: Activity) -> None:
    refuse_existing(task.output)
    model = load_model(task.model)
    config = model.config
    if task.normalisation != OWN:
        config = dataclasses.replace(config, normalisation=task.normalisation)  # type: ignore[arg-type]
    if task.min_probability is not None:
        config = config.limited_by_share(task.min_probability)
    storage: dict[str, Storage] = {"query": task.query, "block": task.block, "reader": task.reader}
    about = {**(model.about or {}), "name": task.name or task.output.name}
    saved = save_model(dataclasses.replace(model, config=config), task.output, storage=storage, about=about)
    result = {"path": str(task.output), "model_hash": saved.hash}
    activity.say(f"{task.output}: {task.kept(result)['bytes'] / 1e6:.1f} MB.")
    activity.result(result)
