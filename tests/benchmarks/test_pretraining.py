"""The comparison of pre-training steps: both sides get the same sequences, and the table says which ratio is which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.peer import _padded
from benchmarks.peers import HERE, REALM, Environment
from benchmarks.pretraining import _padded_wordpieces, _SameBlocks
from benchmarks.report import _pretraining
from realm_core.index.generation import Generation
from tests.tiny import tiny_deployment

K = 2
BATCH: dict[str, Any] = {
    "queries": [([101, 7, 103, 102], [0] * 4), ([101, 103, 103, 5, 6, 102], [0] * 6)],
    "blocks": [([101, 9, 102], [0, 0, 1])] * 3 + [([101, 9, 102, 8, 102], [0, 0, 0, 1, 1])],
    "pairs": [([101, 7, 103, 102, 9, 102], [0] * 4 + [1] * 2)] * 2
    + [([101, 103, 103, 5, 6, 102, 102], [0] * 6 + [1])] * 2,
    "masks": [[1], [0, 1]],
    "targets": [[40], [41, 42]],
}


def test_the_peer_is_given_padded_sequences_and_the_places_of_the_masks() -> None:
    retrieval, filling = _padded(BATCH, K)
    assert retrieval["input_ids"].shape == (2, 6) and retrieval["candidate_input_ids"].shape == (2, K, 5)
    assert retrieval["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]
    assert retrieval["candidate_input_ids"][1].tolist() == [[101, 9, 102, 0, 0], [101, 9, 102, 8, 102]]
    assert retrieval["candidate_token_type_ids"][1, 1].tolist() == [0, 0, 0, 1, 1]
    assert filling["input_ids"].shape == (2, K, 7)
    assert filling["labels"].tolist() == [[-100, -100, 40, *[-100] * 4], [-100, 41, 42, *[-100] * 4]]
    hidden = filling["input_ids"][torch.arange(2)[:, None], 0][filling["mlm_mask"].bool().unsqueeze(1)]
    assert hidden.tolist() == [103, 103, 103]  # [MASK], in each of them


def test_padding_is_counted_on_their_side() -> None:
    retrieval, filling = _padded(BATCH, K)
    tensors = (retrieval["input_ids"], retrieval["candidate_input_ids"], filling["input_ids"])
    assert _padded_wordpieces(BATCH) == sum(tensor.numel() for tensor in tensors)


def test_a_batch_retrieves_the_same_blocks_in_every_round(tmp_path: Path) -> None:
    index = _SameBlocks(Generation.open(tiny_deployment(tmp_path)[1]), 0, 0.0, torch.device("cpu"))
    draw = torch.Generator().manual_seed(0)
    first, other = (torch.randn(3, 16, generator=draw) for _ in range(2))
    found = index.search(first, 4)[0]
    fresh = super(_SameBlocks, index).search(other, 4)[0]
    assert not torch.equal(found, fresh)
    assert torch.equal(index.search(other, 4)[0], found)


def test_both_sides_have_the_same_torch_and_the_peer_the_last_realm() -> None:
    ours = (HERE.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    theirs = (HERE / "constraints-realm.txt").read_text(encoding="utf-8").splitlines()
    (torch_pin,) = (line for line in ours if line.startswith("torch=="))
    assert torch_pin in theirs and "transformers==4.57.6" in theirs
    assert REALM.constraints == (HERE / "constraints-realm.txt",)


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.HERE", tmp_path)
    pins = tmp_path / "pins.txt"
    pins.write_text("a==1\n")
    commands: list[tuple[str, ...]] = []

    def run(environment: Environment, *command: str) -> None:
        commands.append(command)
        environment.path.mkdir(exist_ok=True)

    monkeypatch.setattr(Environment, "_run", run)
    environment = Environment("nothing", ".venv-nothing", (pins,), (("a",), ("b", "c")))
    assert environment.ensure() == tmp_path / ".venv-nothing" / "bin" / "python"
    assert [command[-1] for command in commands] == [str(environment.path), "a", "c"]
    assert all(str(pins) in command for command in commands[1:])
    environment.ensure()
    assert len(commands) == 3
    pins.write_text("a==2\n")
    environment.ensure()
    assert len(commands) > 3


def test_the_table_puts_the_ratio_in_the_same_precision_first() -> None:
    def figures(value: float) -> dict[str, float]:
        return {"median": value, "low": value - 0.5, "high": value + 0.5}

    contestants = {
        name: {"dtype": dtype, "sequences_per_s": figures(rate), "share_of_peak": figures(0.5)}
        for name, dtype, rate in (("realm_core", "bfloat16", 3.0), ("transformers 4", "float32", 1.0))
    }
    lines = _pretraining(
        {
            "k": 8,
            "steps": 2,
            "sentences": 4,
            "rounds": 3,
            "wordpieces": 100,
            "wordpieces_theirs": 150,
            "gflop": 12.3,
            "contestants": contestants,
            "ratio": figures(3.0),
            "ratio_same_dtype": {"float32": figures(2.0)},
            "refresh": {
                "builder_blocks_per_s": figures(90.0),
                "trainer_alone_sequences_per_s": figures(1.5),
                "trainer_beside_sequences_per_s": figures(0.75),
            },
        }
    )
    (arrow,) = (line for line in lines if "→" in line)
    assert "both in float32: 2.00 (1.50–2.50) times as fast" in arrow
    shipped = lines[lines.index(arrow) + 1]
    assert "as shipped, ours in bfloat16, theirs in float32: 3.00 (2.50–3.50) (target 2.5)" in shipped
    assert "alone: 1.50" in lines[-1] and "beside a builder on the same machine: 0.75" in lines[-1]
