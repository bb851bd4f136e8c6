"""A small but real deployment for tests: two-layer BERT with random weights, a dozen articles, their index.

Nothing is faked: the same code builds, loads and asks. Only the answers are no good.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.files import write_json
from realm_core.index.build import build
from realm_core.model.bert import Architecture, Bert
from realm_core.model.checkpoint import Model, load_model, new_encoder, new_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource

ARTICLES = {
    "Suez Canal": "The Suez Canal is a waterway in Egypt. It was opened on 17 November 1869 after ten years of work.",
    "Mars": "Mars is the fourth planet from the Sun. It has two moons, Phobos and Deimos.",
    "Tungsten": "Tungsten is a metal with the symbol W and atomic number 74. It melts at 3,422 °C.",
    "Stanley Kubrick": "Stanley Kubrick was an American film director. He directed 2001: A Space Odyssey in 1968.",
    "Nile": "The Nile is a river in Africa. It flows through Egypt and Sudan into the Mediterranean Sea.",
    "Marie Curie": "Marie Curie was a physicist and chemist. She was born in Warsaw and discovered polonium.",
    "Bhutan": "Bhutan is a country in the Himalayas. Its capital is Thimphu.",
    "Photosynthesis": "Photosynthesis turns light into chemical energy. Plants make sugar and oxygen by it.",
    "Ada Lovelace": "Ada Lovelace was an English mathematician. She wrote notes on Babbage's Analytical Engine.",
    "Berlin": "Berlin is the capital of Germany. The Berlin Wall fell on 9 November 1989.",
    "Amazon River": "The Amazon River crosses Brazil. It carries more water than any other river.",
    "Johann Sebastian Bach": "Johann Sebastian Bach was a composer. He wrote the Mass in B minor and died in 1750.",
}
QUESTIONS = [f"What is said about {title}?" for title in ARTICLES]


def tiny_config(folder: Path) -> ModelConfig:
    """A configuration whose base weights are written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.safetensors").exists():
        config = Architecture(
            vocab_size=30522,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=512,
        )
        torch.manual_seed(0)
        bert = Bert(config)
        save_file(
            {name: tensor.contiguous() for name, tensor in bert.state_dict().items()}, folder / "model.safetensors"
        )
        write_json(folder / "config.json", asdict(config))
    return ModelConfig(base=str(folder), dimension=16, span_hidden=16, span_wordpieces=6)


def tiny_model(folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny model under `folder`; returns its folder."""
    final = folder / f"model-{seed}"
    if not final.exists():
        model: Model = new_model(tiny_config(folder / "base"), seed=seed)
        with torch.no_grad():  # random states are all alike; larger projections tell the blocks apart
            for side in (model.query, model.block):
                side.dense.weight.mul_(20)
        save_model(model, final)
    return final


def tiny_snapshot(folder: Path, articles: dict[str, str] | None = None) -> Path:
    """Publish a snapshot of a dozen articles under `folder`; returns its folder."""
    source = InMemorySource(
        [
            RawArticle(id=title, title=title, url=f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}", text=text)
            for title, text in (articles or ARTICLES).items()
        ],
        name="tiny",
        licence="CC BY-SA 4.0",
        attribution="Written for the tests",
    )
    return ingest(source, name="tiny", output=folder / "corpora", activity=Activity(quiet=True), processes=1)


def tiny_deployment(folder: Path) -> tuple[Path, Path, Path]:
    """(model, index, corpus) folders that fit together, for `Engine.load`."""
    model, corpus = tiny_model(folder), tiny_snapshot(folder)
    return model, build(model, corpus, folder / "indexes", Activity(quiet=True), device="cpu"), corpus


def tiny_filler(folder: Path) -> tuple[Path, Path, Path]:
    """As `tiny_deployment`, with a model that has an encoder of masked sentences, too."""
    corpus, final = tiny_snapshot(folder), folder / "filler"
    if not final.exists():
        model = load_model(tiny_model(folder))
        encoder = new_encoder(model.config)
        with torch.no_grad():  # so that guesses are decided and depend on what is read, and the null block is not all
            for parameter in (*encoder.bert.encoder.parameters(), encoder.head.dense.weight):
                if parameter.dim() > 1:
                    parameter.mul_(15)
            encoder.head.norm.weight.mul_(40)
            model.block.norm.weight.mul_(0.25)
        save_model(replace(model, encoder=encoder), final)
    return final, build(final, corpus, folder / "indexes", Activity(quiet=True), device="cpu"), corpus
