"""A model on disk: round trip, and errors that name the file."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from realm_core import tensors
from realm_core.errors import RealmError
from realm_core.files import read_json, sha256_of_file
from realm_core.model.checkpoint import Model, Storage, load_model, new_encoder, new_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.model.identity import read_hashes
from realm_core.model.packed import Packed
from tests.tiny import tiny_config


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    return tiny_config(tmp_path_factory.mktemp("checkpoint") / "base")


@pytest.fixture
def model(config: ModelConfig) -> Model:
    """A model with one matrix of the reader's BERT changed, as training changes it."""
    made = new_model(config, seed=7)
    with torch.no_grad():
        _changed_matrix(made).add_(torch.randn(64, 32, generator=torch.Generator().manual_seed(1)))
    return made


@pytest.fixture(scope="module")
def saved(config: ModelConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid model folder; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("models") / "sound"
    save_model(new_model(config, seed=7), folder)
    return folder


def _changed_matrix(model: Model) -> Tensor:
    matrix: Tensor = model.reader.bert.encoder.layer[0].intermediate.dense.weight
    return matrix


def all_tensors(model: Model) -> dict[str, Tensor]:
    return {f"{p}.{n}": t for p, module in model.parts().items() for n, t in module.state_dict().items()}


# ── There and back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_float32_comes_back_to_the_bit(model: Model, tmp_path: Path) -> None:
    stored = save_model(model, tmp_path / "m", about={"name": "small"})
    loaded = load_model(tmp_path / "m")
    wanted, got = all_tensors(model), all_tensors(loaded)
    assert wanted.keys() == got.keys()
    assert all(torch.equal(wanted[name], got[name]) for name in wanted)
    assert (loaded.hash, loaded.block_hash) == (stored.hash, stored.block_hash) == read_hashes(tmp_path / "m")
    assert loaded.config == model.config
    assert loaded.about == {"name": "small"}
    assert not any(part.training for part in loaded.parts().values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("storage", get_args(Storage))
def test_frozen_parts_share_unchanged_weights(
    model: Model, tmp_path: Path, dtype: torch.dtype, storage: Storage
) -> None:
    save_model(replace(model, encoder=new_encoder(model.config)), tmp_path / "m", storage={"reader": storage})
    models = [load_model(tmp_path / "m", frozen=frozen) for frozen in (None, dtype, dtype)]
    to_train, frozen, again = map(all_tensors, models)
    for name, tensor in to_train.items():
        assert torch.equal(tensor.to(dtype) if ".bert." in name else tensor, frozen[name]), name
    words = "bert.embeddings.word_embeddings.weight"
    changed = "bert.encoder.layer.0.intermediate.dense.weight"

    def places(of: dict[str, Tensor], name: str) -> list[int]:
        return [of[f"{part}.{name}"].data_ptr() for part in ("query", "block", "reader", "encoder")]

    assert len(set(places(to_train, words))) == 4  # each is trained by itself
    assert len(set(places(frozen, words))) == 1
    assert len(set(places(frozen, changed))) == 2  # the reader's, and the others'
    assert places(frozen, words) == places(again, words)  # as long as one of both models is there
    assert places(frozen, changed)[0] == places(again, changed)[0]
    assert places(frozen, changed)[2] != places(again, changed)[2]
    other = torch.bfloat16 if dtype == torch.float32 else torch.float32
    alike = all_tensors(load_model(tmp_path / "m", frozen=other))[f"query.{words}"]  # beside those
    assert alike.dtype == other and torch.equal(alike, to_train[f"query.{words}"].to(other))


def test_hooks_of_one_model_are_not_on_another(model: Model, tmp_path: Path) -> None:
    """As the recording of activations does while another thread answers."""
    save_model(model, tmp_path / "m")
    one, other = (load_model(tmp_path / "m", frozen=torch.float32) for _ in range(2))
    met: list[nn.Module] = []
    for module in one.query.modules():
        module.register_forward_pre_hook(lambda module, _: met.append(module))
    wordpieces = Packed.of([[101, 102]])
    other.query.encode(wordpieces)
    one.reader.encode(wordpieces)
    assert met == []
    one.query.encode(wordpieces)
    assert met


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_quantisation_error_is_within_the_step_size(model: Model, tmp_path: Path, storage: Storage) -> None:
    save_model(model, tmp_path / "m", storage={"query": "float32", "block": storage, "reader": storage})
    wanted, got = all_tensors(model), all_tensors(load_model(tmp_path / "m"))
    lossy = 0
    for name, tensor in wanted.items():
        error = (got[name] - tensor).abs()
        if name.startswith("query."):
            assert not error.any()
        elif storage == "int8" and tensor.dim() == 2 and min(tensor.shape) > 1 and error.any():
            step_rows = tensor.abs().amax(dim=1, keepdim=True) / 127
            assert (error <= 0.5 * step_rows + 1e-3 * tensor.abs()).all(), name  # half a step, and the scale's rounding
            lossy += 1
        else:
            assert (error <= tensor.abs() * 2**-11 + 1e-7).all(), name  # half a unit of float16's last place
            lossy += bool(error.any())
    assert lossy


def test_int8_handles_rows_of_zeros_and_tiny_values(model: Model, tmp_path: Path) -> None:
    with torch.no_grad():
        _changed_matrix(model)[0] = 0.0
        _changed_matrix(model)[1] = 1e-9
    save_model(model, tmp_path / "m", storage={"reader": "int8"})
    got = _changed_matrix(load_model(tmp_path / "m"))
    assert not got[0].any()
    assert torch.isfinite(got).all() and got[1].abs().max() < 1e-7


def test_only_what_differs_from_the_base_is_stored(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m")
    heads = ["dense.weight", "dense.bias", "norm.weight", "norm.bias"]
    reader = ["ends.weight", "ends.bias", "norm.weight", "norm.bias", "score.weight", "score.bias"]
    assert sorted(load_file(tmp_path / "m" / "model.safetensors")) == sorted(
        [
            *(f"{side}.{name}" for side in ("query", "block") for name in heads),
            *(f"reader.{name}" for name in reader),
            "reader.bert.encoder.layer.0.intermediate.dense.weight",
        ]
    )


def test_the_files_are_safetensors_and_json(model: Model, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m")
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["config.json", "model.safetensors"]
    json.loads((tmp_path / "m" / "config.json").read_text())
    with safe_open(tmp_path / "m" / "model.safetensors", "pt") as file:
        assert file.keys()


def test_hashes_depend_on_changed_parts(model: Model, tmp_path: Path) -> None:
    def hashes(name: str) -> tuple[str | None, str | None]:
        stored = save_model(model, tmp_path / name)
        return stored.hash, stored.block_hash

    first, again = hashes("first"), hashes("again")
    assert first == again
    with torch.no_grad():
        model.reader.score.bias.add_(1)
        model.query.norm.bias.add_(1)
    reader_changed = hashes("reader")
    assert reader_changed[0] != first[0] and reader_changed[1] == first[1]  # every index stays right
    with torch.no_grad():
        model.block.norm.bias.add_(1)
    block_changed = hashes("block")
    assert len({first[0], reader_changed[0], block_changed[0]}) == 3
    assert block_changed[1] != first[1]


def test_reading_options_change_only_the_models_hash(model: Model, tmp_path: Path) -> None:
    first = save_model(model, tmp_path / "first")
    other = replace(model, config=replace(model.config, normalisation="joint"))
    second = save_model(other, tmp_path / "second")
    assert first.hash != second.hash and first.block_hash == second.block_hash
    assert load_model(tmp_path / "second").config.normalisation == "joint"


# ── The encoder, and one embedder for both sides ────────────────────────────────────────────────────────────────────


def test_an_encoder_comes_back_to_the_bit(model: Model, tmp_path: Path) -> None:
    encoder = new_encoder(model.config, seed=3)
    with torch.no_grad():
        encoder.bert.encoder.layer[1].output.dense.bias.add_(0.5)
        encoder.head.bias[5] = 2.0
    with_encoder = replace(model, encoder=encoder)
    save_model(with_encoder, tmp_path / "m")
    stored = {name for name in load_file(tmp_path / "m" / "model.safetensors") if name.startswith("encoder.")}
    assert stored == {
        "encoder.bert.encoder.layer.1.output.dense.bias",
        *(f"encoder.head.{name}" for name in ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias")),
    }
    loaded = load_model(tmp_path / "m")
    wanted, got = all_tensors(with_encoder), all_tensors(loaded)
    assert wanted.keys() == got.keys()
    assert all(torch.equal(wanted[name], got[name]) for name in wanted)
    assert loaded.encoder is not None and not loaded.encoder.training


def test_an_encoder_changes_the_models_hash_but_no_index(model: Model, tmp_path: Path) -> None:
    without = save_model(model, tmp_path / "without")
    with_encoder = save_model(replace(model, encoder=new_encoder(model.config)), tmp_path / "with")
    assert without.hash != with_encoder.hash and without.block_hash == with_encoder.block_hash
    assert load_model(tmp_path / "without").encoder is None


def test_an_encoder_without_its_whole_head_is_refused(model: Model, tmp_path: Path) -> None:
    save_model(replace(model, encoder=new_encoder(model.config)), tmp_path / "m")
    _rewrite(lambda t: t.pop("encoder.head.norm.bias"))(tmp_path / "m")
    with pytest.raises(RealmError, match=r"has no tensor 'encoder\.head\.norm\.bias'"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_one_embedder_for_both_sides_is_stored_once(model: Model, tmp_path: Path, storage: Storage) -> None:
    with torch.no_grad():
        model.block.bert.encoder.layer[0].output.dense.weight.mul_(1.5)
    stored = save_model(replace(model, query=model.block), tmp_path / "m", storage={"block": storage})
    names = load_file(tmp_path / "m" / "model.safetensors")
    assert not any(name.startswith("query.") for name in names)
    assert "block.bert.encoder.layer.0.output.dense.weight" in names
    loaded = load_model(tmp_path / "m")
    query, block = loaded.query.state_dict(), loaded.block.state_dict()
    assert all(torch.equal(query[name], block[name]) for name in block)
    if storage == "float32":
        assert all(torch.equal(tensor, block[name]) for name, tensor in model.block.state_dict().items())
    with torch.no_grad():  # fine-tuning moves the query side alone
        loaded.query.norm.bias.add_(1)
    again = save_model(loaded, tmp_path / "again", storage={"block": storage})
    assert again.block_hash == stored.block_hash
    moved = load_model(tmp_path / "again")
    assert torch.equal(moved.query.norm.bias, moved.block.norm.bias + 1)


# ── What is wrong ───────────────────────────────────────────────────────────────────────────────────────────────────


def _flip_a_byte(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def _rewrite(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    """Other tensors with a valid checksum: only names and shapes reveal the error."""

    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")
        _config(lambda record: record.update(weights_sha256=sha256_of_file(folder / "model.safetensors")))(folder)

    return rewrite


def _config(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        record = read_json(folder / "config.json")
        change(record)
        (folder / "config.json").write_text(json.dumps(record))

    return rewrite


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (_flip_a_byte, r"model\.safetensors is damaged"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"model\.safetensors does not exist"),
    "no config": (lambda folder: (folder / "config.json").unlink(), r"config\.json does not exist"),
    "no folder": (shutil.rmtree, r"config\.json does not exist"),
    "not JSON": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is not valid JSON"),
    "a list": (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json is not a model of format 1"),
    "other format": (_config(lambda record: record.update(format=2)), r"config\.json is not a model of format 1"),
    "no architecture": (_config(lambda record: record.pop("model")), r"config\.json .*'model' is missing"),
    "no checksum": (
        _config(lambda record: record.pop("weights_sha256")),
        r"config\.json .*'weights_sha256' is missing",
    ),
    "unknown key": (
        _config(lambda r: r["model"].update(colour=1)),
        r"config\.json: unknown key 'colour'; known are base",
    ),
    "unknown pooling": (
        _config(lambda r: r["model"].update(pooling="max")),
        r"config\.json: pooling must be one of cls",
    ),
    "wrong type": (_config(lambda r: r["model"].update(min_probability="x")), r"config\.json: "),
    "too long": (_config(lambda r: r["model"].update(block_wordpieces=513)), r"config\.json: block_wordpieces"),
    "no base": (_config(lambda r: r["model"].update(base="no_such_package")), "no_such_package"),
    "missing tensor": (_rewrite(lambda t: t.pop("reader.score.weight")), r"has no tensor 'reader\.score\.weight'"),
    "foreign tensor": (_rewrite(lambda t: t.update(extra=torch.zeros(1))), r"tensor 'extra' does not belong"),
    "wrong shape": (
        _rewrite(lambda t: t.update({"query.norm.bias": torch.zeros(1)})),
        r"tensor 'query\.norm\.bias' does not belong",
    ),
    "codes without scale": (
        _rewrite(lambda t: t.update({"query.dense.weight": torch.zeros(16, 32, dtype=torch.int8)})),
        r"tensor 'query\.dense\.weight' does not belong",
    ),
    "another architecture": (
        _config(lambda record: record["model"].update(dimension=8)),
        r"tensor '\w+\.[\w.]+' does not belong",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_errors_name_the_file(saved: Path, tmp_path: Path, damage: str) -> None:
    do, message = DAMAGES[damage]
    shutil.copytree(saved, tmp_path / "m")
    do(tmp_path / "m")
    with pytest.raises(RealmError, match=message) as raised:
        load_model(tmp_path / "m")
    assert str(tmp_path) in str(raised.value) or damage == "no base"


def test_weights_that_are_no_safetensors_are_refused(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").write_bytes(b"not tensors")
    _config(lambda record: record.update(weights_sha256=sha256_of_file(tmp_path / "m" / "model.safetensors")))(
        tmp_path / "m"
    )
    with pytest.raises(RealmError, match=r"model\.safetensors cannot be read"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("content", ["[]", "{}", '{"model": 3}'])
def test_hashes_of_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RealmError, match=r"config\.json does not describe a model"):
        read_hashes(tmp_path)


# ── Whole or not at all ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        Exception(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),  # as safetensors says it
    ],
    ids=["Python", "Rust"],
)
def test_a_full_disk_leaves_nothing_visible(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(stored: dict[str, Tensor], path: Path) -> None:
        path.write_bytes(b"half of it")
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(tensors, "save_file", full)
        with pytest.raises(RealmError, match=r"The disk that holds .* is full"):
            save_model(model, tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    save_model(model, tmp_path / "m")  # what was left behind is in nobody's way
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_model_is_never_overwritten(saved: Path, config: ModelConfig) -> None:
    before = read_hashes(saved)
    with pytest.raises(RealmError, match="exists already"):
        save_model(new_model(config, seed=8), saved)
    assert read_hashes(saved) == before
