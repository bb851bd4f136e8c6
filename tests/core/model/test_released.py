"""Imported released checkpoints against transformers' BERT and the formulas of the released code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, BertModel

from realm_core.errors import RealmError
from realm_core.index.build import build
from realm_core.model.checkpoint import load_model
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies
from realm_core.model.released import import_released
from realm_core.model.torch_file import read_torch_file
from tests.core.processes import finish, start
from tests.core.running import activity_of
from tests.core.training.towns import QUIET, TEXTS
from tests.tiny import tiny_snapshot

W, H, D, VOCABULARY = 32, 8, 8, 30522
CONFIG: dict[str, Any] = {
    "model_type": "realm",
    "vocab_size": VOCABULARY,
    "hidden_size": W,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_act": "gelu_new",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "retriever_proj_size": D,
    "span_hidden_size": H,
    "max_span_width": 3,
    "reader_seq_len": 64,
}
BERT = BertConfig(**{key: value for key, value in CONFIG.items() if key != "model_type"}, attn_implementation="eager")
QUESTION = [101, 2040, 2626, 1996, 3185, 102]
PAIR, SEGMENTS, BODY = [101, 2040, 2626, 102, 1996, 3185, 2001, 2517, 102], [0] * 4 + [1] * 5, range(4, 8)


def drawn(names: dict[str, tuple[int, ...]], seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) * 0.3 for name, shape in names.items()}


def bert_tensors(seed: int) -> dict[str, Tensor]:
    shapes = {f"realm.{name}": tuple(tensor.shape) for name, tensor in BertModel(BERT).state_dict().items()}
    return drawn(shapes, seed) | {"realm.embeddings.position_ids": torch.arange(512).unsqueeze(0)}


def embedder_tensors(seed: int) -> dict[str, Tensor]:
    own = drawn(
        {"cls.dense.weight": (D, W), "cls.dense.bias": (D,), "cls.LayerNorm.weight": (D,), "cls.LayerNorm.bias": (D,)},
        seed + 1,
    )
    return bert_tensors(seed) | own


def reader_tensors(seed: int) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "dense_intermediate.weight": (2 * H, W),
        "dense_intermediate.bias": (2 * H,),
        "layer_normalization.weight": (H,),
        "layer_normalization.bias": (H,),
        "dense_output.weight": (1, H),
        "dense_output.bias": (1,),
    }
    return bert_tensors(seed) | drawn({f"qa_outputs.{name}": shape for name, shape in shapes.items()}, seed + 1)


def encoder_tensors(seed: int) -> dict[str, Tensor]:
    bert = bert_tensors(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "transform.dense.weight": (W, W),
        "transform.dense.bias": (W,),
        "transform.LayerNorm.weight": (W,),
        "transform.LayerNorm.bias": (W,),
        "bias": (VOCABULARY,),
    }
    own = drawn({f"cls.predictions.{name}": shape for name, shape in shapes.items()}, seed + 1)
    return bert | own | {"cls.predictions.decoder.weight": bert["realm.embeddings.word_embeddings.weight"].clone()}


PARTS: dict[str, dict[str, Tensor]] = {
    "embedder": embedder_tensors(1),
    "encoder": encoder_tensors(3),
    "reader": reader_tensors(5),
    "openqa": {f"embedder.{name}": tensor for name, tensor in embedder_tensors(7).items()}
    | {f"reader.{name}": tensor for name, tensor in reader_tensors(9).items()}
    | {"block_emb": torch.zeros(5, D)},
}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder of each part."""
    for part, tensors in PARTS.items():
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text(json.dumps(CONFIG))
        save_file(tensors, tmp_path / part / "model.safetensors")
    return tmp_path


def bert_of(tensors: dict[str, Tensor], prefix: str = "realm.") -> BertModel:
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    model = BertModel(BERT)
    model.load_state_dict({name: tensor for name, tensor in own.items() if name != "embeddings.position_ids"})
    return model.eval()


def plain_embedding(tensors: dict[str, Tensor], prefix: str = "") -> Tensor:
    """[D]: [CLS] after BERT's pooler, projected, normalised."""
    pooled_1W = bert_of(tensors, f"{prefix}realm.")(input_ids=torch.tensor([QUESTION])).pooler_output
    dense = F.linear(pooled_1W, tensors[f"{prefix}cls.dense.weight"], tensors[f"{prefix}cls.dense.bias"])
    norm = (tensors[f"{prefix}cls.LayerNorm.weight"], tensors[f"{prefix}cls.LayerNorm.bias"])
    return F.layer_norm(dense, (D,), *norm, eps=1e-12)[0]


def plain_spans(tensors: dict[str, Tensor], prefix: str) -> dict[tuple[int, int], float]:
    """{(first, last): score} of the body's spans of at most three wordpieces."""
    ids, types = torch.tensor([PAIR]), torch.tensor([SEGMENTS])
    hidden_LW = bert_of(tensors, f"{prefix}realm.")(input_ids=ids, token_type_ids=types).last_hidden_state[0]
    of = {name.removeprefix(f"{prefix}qa_outputs."): tensor for name, tensor in tensors.items()}
    start_LH, end_LH = F.linear(hidden_LW, of["dense_intermediate.weight"], of["dense_intermediate.bias"]).chunk(2, 1)
    scores = {}
    for first in BODY:
        for last in range(first, min(first + 3, BODY.stop)):
            norm = (of["layer_normalization.weight"], of["layer_normalization.bias"])
            state_H = F.layer_norm(torch.relu(start_LH[first] + end_LH[last]), (H,), *norm, eps=1e-3)
            scores[first, last] = float(F.linear(state_H, of["dense_output.weight"], of["dense_output.bias"]))
    return scores


@pytest.mark.parametrize("reads", ["openqa", "reader"])
def test_an_imported_model_computes_what_the_release_computes(released: Path, tmp_path: Path, reads: str) -> None:
    folders = ["--embedder", released / "embedder", f"--{reads}", released / reads, "--encoder", released / "encoder"]
    activity_of("import", [*folders, "--output", tmp_path / "made"])
    model = load_model(tmp_path / "made")
    prefix = "reader." if reads == "openqa" else ""
    with torch.no_grad():
        question = Packed.of([QUESTION])
        torch.testing.assert_close(model.block(question)[0], plain_embedding(PARTS["embedder"]), atol=1e-5, rtol=1e-5)
        wanted = plain_embedding(PARTS["openqa"], "embedder.") if prefix else plain_embedding(PARTS["embedder"])
        torch.testing.assert_close(model.query(question)[0], wanted, atol=1e-5, rtol=1e-5)

        count = len(BODY)
        bodies = Bodies(
            positions_N=torch.tensor(BODY),
            room_N=torch.arange(count, 0, -1),
            word_start_N=torch.ones(count, dtype=torch.bool),
            word_end_N=torch.ones(count, dtype=torch.bool),
            lengths=(count,),
        )
        logits_NM = model.reader(Packed.of([PAIR], [SEGMENTS]), bodies)
        spans = plain_spans(PARTS[reads], prefix)
        assert int(logits_NM.isfinite().sum()) == len(spans)
        for (first, last), score in spans.items():
            assert float(logits_NM[first - BODY.start, last - first]) == pytest.approx(score, abs=1e-4)

        assert model.encoder is not None
        masked = [101, 2040, 103, 1996, 102]
        plain = BertForMaskedLM(BERT)
        encoder = PARTS["encoder"]
        plain.bert.load_state_dict(bert_of(encoder).state_dict(), strict=False)
        head = {name.removeprefix("cls.predictions."): t for name, t in encoder.items() if name.startswith("cls.")}
        plain.cls.predictions.load_state_dict(head, strict=False)
        wanted_V = torch.log_softmax(plain.eval()(input_ids=torch.tensor([masked])).logits[0, 2], dim=-1)
        own_V = model.encoder(Packed.of([masked]), torch.tensor([2]))[0]
        torch.testing.assert_close(own_V, wanted_V, atol=1e-4, rtol=1e-4)
    config = model.config
    assert (config.reader_title, config.normalisation, config.normalisations) == (False, "joint", ("block", "joint"))
    assert (config.span_wordpieces, config.reader_wordpieces, config.dimension) == (3, 64, D)


def test_an_imported_model_indexes_is_trained_and_answers(released: Path, tmp_path: Path) -> None:
    corpus, made = tiny_snapshot(tmp_path, TEXTS), tmp_path / "made"
    activity_of("import", ["--embedder", released / "embedder", "--openqa", released / "openqa", "--output", made])
    index = build(made, corpus, tmp_path / "indexes", QUIET, device="cpu")
    title, text = next(iter(TEXTS.items()))
    row = {"question": f"Where is {title}?", "answers": [text.split()[0]]}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
    words = ["--model", made, "--corpus", corpus, "--index", index, "--questions", tmp_path / "q.jsonl"]
    tune = [*words, "--device", "cpu", "--output", tmp_path / "tuned", "--set", "epochs=1", "--set", "holdout=0"]
    without, released = ["--set", "pairs=0"], ["--set", "normalisation='joint'"]
    for settings in ([], without, released):
        with pytest.raises(RealmError, match=r'made has no score of “not here”.*pairs = 0.* to "joint" or "block"'):
            activity_of("finetune", [*tune, *settings])
    activity_of("finetune", [*tune, *without, *released])
    assert load_model(tmp_path / "tuned").config.base.startswith("{")
    with pytest.raises(RealmError, match=r"cannot be read by block\+null: it has no score of “not here”"):
        activity_of("evaluate", [*words, "--normalisation", "block+null"])
    activity_of("evaluate", words, run=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["n"] == 1


# ── pytorch_model.bin ───────────────────────────────────────────────────────────────────────────────────────────────

SAVE = """
import collections, sys, torch
from safetensors.torch import load_file
from torch import nn
tensors = collections.OrderedDict(load_file(sys.argv[1]))
tensors._metadata = collections.OrderedDict({"": {"version": 1}, "realm": {"version": 1}})  # as a module's table has
tensors["parameter"] = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())  # neither plain nor contiguous
tensors["half"], tensors["truth"] = torch.ones(3).half() / 3, torch.tensor([True, False])
tensors["brain"], tensors["none"] = torch.ones(2, dtype=torch.bfloat16), torch.zeros(0, 4)
torch.save(tensors, sys.argv[2])
"""


def test_a_file_of_torch_is_read_without_unpickling(released: Path, tmp_path: Path) -> None:
    source, made = released / "embedder" / "model.safetensors", tmp_path / "pytorch_model.bin"
    assert finish(start([str(source), str(made)], SAVE))[0] == 0
    read = read_torch_file(made)
    for name, tensor in PARTS["embedder"].items():
        assert torch.equal(read[name], tensor)
    assert torch.equal(read["parameter"], torch.arange(6.0).reshape(2, 3).t())
    assert torch.equal(read["half"], torch.ones(3).half() / 3) and torch.equal(
        read["truth"], torch.tensor([True, False])
    )
    assert read["brain"].dtype == torch.bfloat16 and read["none"].shape == (0, 4)
    assert list(read_torch_file(made, lambda name: name == "half")) == ["half"]

    made.rename(released / "embedder" / "pytorch_model.bin")
    with_safetensors = import_released(released / "embedder")
    source.unlink()
    without = import_released(released / "embedder")
    for name, tensor in with_safetensors.block.state_dict().items():
        assert torch.equal(without.block.state_dict()[name], tensor)


def zipped(path: Path, table: bytes, storage: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", table)
        archive.writestr("archive/data/0", storage)
    return path


def one_tensor(size: int, offset: int = 0) -> bytes:
    """The table {"x": …} as torch writes it, of a vector in a storage of four bytes."""
    return (
        b"\x80\x02ccollections\nOrderedDict\n)RX\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n"
        b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
        + b"K%cK%c\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs."
        % (offset, size)
    )


def test_a_handwritten_state_dict_is_read(tmp_path: Path) -> None:
    read = read_torch_file(zipped(tmp_path / "x.bin", one_tensor(1), b"\x00\x00\x80\x3f"))
    assert read["x"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"cos\nsystem\n(X\x0c\x00\x00\x00touch calledtR.", "it calls os system, which is not allowed"),
        (b"cbuiltins\neval\n(X\x03\x00\x00\x001+1tR.", "it calls builtins eval, which is not allowed"),
        (b"(S'touch called'\nios\nsystem\n.", "the opcode STRING is not allowed in a state dict of tensors"),
        (b"}.", None),
        (b"].", "the opcode EMPTY_LIST is not allowed"),
        (b"K\x01.", "is not a state dict of tensors"),
        (b"}X\x01\x00\x00\x00xK\x01s.", "is not a state dict of tensors"),
        (b"0.", "is not allowed"),
        (b"\x85.", "is not a state dict of tensors"),
        (b"", "is not a state dict of tensors"),
        (one_tensor(1)[:-20], "is not a state dict of tensors"),
        (one_tensor(1).replace(b"K\x01tQ", b"K\x01t"), "is not a state dict of tensors"),  # no storage in its place
        (b"(S'\\q'\n.", "the opcode STRING is not allowed"),  # which is not even warned of
        (one_tensor(2), "x: the tensor reaches beyond its storage"),
        (one_tensor(1, offset=1), "x: the tensor reaches beyond its storage"),
        (one_tensor(1).replace(b"FloatStorage", b"ComplexStorage"), "tensors of ComplexStorage are not supported"),
    ],
)
def test_other_pickles_are_refused_and_nothing_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: bytes, message: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    path = zipped(tmp_path / "x.bin", table, b"\x00\x00\x80\x3f")
    if message is None:
        assert read_torch_file(path) == {}
    else:
        with pytest.raises(RealmError, match=message):
            read_torch_file(path)
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\x80\x02}." + data[:0]]
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = zipped(tmp_path / "x.bin", one_tensor(1), b"\x00\x00\x80\x3f")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RealmError, match=r"x\.bin is damaged, or older than torch 1\.6"):
        read_torch_file(path)


# ── What does not fit ───────────────────────────────────────────────────────────────────────────────────────────────


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = {key: tensor for key, tensor in PARTS[folder.name].items() if key != name}
        save_file(tensors, folder / "model.safetensors")

    return change


def told(**changed: object) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(json.dumps(CONFIG | changed)) and None


def other(name: str, tensor: Tensor) -> Callable[[Path], None]:
    return lambda folder: save_file(PARTS[folder.name] | {name: tensor}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("embedder", told(model_type="bert"), r"config\.json does not describe a REALM model"),
        ("embedder", told(vocab_size=28996), "a vocabulary of 28,996 wordpieces is not BERT's uncased one"),
        ("openqa", told(num_hidden_layers=12), "openqa: num_hidden_layers is 12, but 2 in .*embedder"),
        ("openqa", told(max_span_width=0), "span_wordpieces must be a whole number from 1 to 64, not 0"),
        ("embedder", without("cls.dense.bias"), r"embedder has no tensor 'cls\.dense\.bias'"),
        ("openqa", without("embedder.realm.pooler.dense.weight"), r"has no tensor 'embedder\.realm\.pooler\.dense"),
        (
            "openqa",
            other("reader.qa_outputs.dense_output.weight", torch.zeros(1, 3)),
            r"has shape \(1, 3\), not \(1, 8\)",
        ),
        ("encoder", other("cls.predictions.decoder.weight", torch.zeros(VOCABULARY, W)), "the decoder is not tied"),
        ("encoder", lambda folder: (folder / "model.safetensors").unlink(), "contains neither model.safetensors nor"),
        (
            "encoder",
            lambda folder: (folder / "vocab.txt").write_text("a\nb\n") and None,
            "is not BERT.s uncased",
        ),
    ],
)
def test_mismatches_are_named(
    released: Path, tmp_path: Path, part: str, change: Callable[[Path], None], message: str
) -> None:
    change(released / part)
    folders = [word for name in ("embedder", "openqa", "encoder") for word in (f"--{name}", released / name)]
    with pytest.raises(RealmError, match=message):
        activity_of("import", [*folders, "--output", tmp_path / "made"])
    assert not (tmp_path / "made").exists()
