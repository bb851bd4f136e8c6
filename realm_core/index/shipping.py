"""A copy of an index with quantised vectors, to be shipped with the model that made it."""

from __future__ import annotations

from realm_core.files import new_folder, refuse_existing, sha256_of_file, write_json
from realm_core.index.generation import Generation
from realm_core.index.manifest import MANIFEST_FILE, SHIPPED
from realm_core.index.quantised import quantise
from realm_core.index.tasks import ShipVectors
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors


def main(task: ShipVectors, activity: Activity) -> None:
    """Quantise the vectors of the task's index into one shard."""
    refuse_existing(task.output)
    index = Generation.open(task.index)
    with new_folder(task.output) as made:
        shard = made / "vectors-00000.safetensors"
        save_tensors(shard, quantise(index.vectors_ND))
        entry = {"file": shard.name, "start": 0, "stop": len(index.vectors_ND), "sha256": sha256_of_file(shard)}
        own = {key: value for key, value in index.manifest.items() if key != "search"}  # the files of which stay there
        write_json(made / MANIFEST_FILE, {**own, "generation": SHIPPED, "shards": [entry]}, sealed=True)
    activity.result({"rows": len(index.vectors_ND), "bytes": (task.output / shard.name).stat().st_size})
