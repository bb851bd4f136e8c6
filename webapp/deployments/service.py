"""Deploy a model and an index, or roll back to an earlier pair: the same step, after a check of the pair.

    check = deploying.check(index, model)          # the findings, for a page or an API
    deploying.deploy(index, model=model, by=person, confirmed=check.digest)

A pair that cannot work is refused. A possible mistake (the pair measures worse than the active deployment, or was never
compared with it) needs a person's confirmation, which is recorded in the audit trail. The confirmation is the digest of
the findings that the person read: it does not cover findings of a later check.

A program deploys in two steps: `made_ready` does all that takes long, `deploy_ready` takes a short transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.index.manifest import verify as verify_index
from realm_core.model.identity import read_hashes, verified_weights
from realm_core.object_store import get_folder
from realm_core.pace import low_priority
from webapp.documents import bringing, lineage
from webapp.evaluations import service as comparing
from webapp.models import AuditEntry, CorpusSnapshot, CorpusState, Deployment, Evaluation, IndexGeneration, ModelVersion
from webapp.purges import masks
from webapp.refusals import StateConflict
from webapp.serving.living import fetch_files
from webapp.serving.states import EditConflict
from webapp.storage.places import resolve
from webapp.text import counted

_QUALITY = "Quality"
# In a model's configuration, until `calibrate` has fitted them.
UNFITTED_CONFIDENCE = {
    "confidence_slope": 1.0,
    "confidence_offset": 0.0,
    "confidence_likelihood": 0.0,
    "confidence_margin": 0.0,
}
_EDITED = "Edited documents"
_ARTICLES = "Articles"
# What is looked at by a person who deploys, and accepted where a person had a corpus made to be deployed.
_ACCEPTED = frozenset({_QUALITY, _ARTICLES})
_FEWER: Final = 0.5  # of the articles that answer now: a person confirms that the others shall go
CONFIRMATION = "I have read this and want to deploy it anyway."


class Verdict(StrEnum):
    """GOOD: no objection. DOUBT: a person must confirm it. BAD: it cannot be deployed."""

    GOOD = "good"
    DOUBT = "doubt"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One result of a check. about: the subject, in a few words. says: the result, in a sentence."""

    about: str
    verdict: Verdict
    says: str


@dataclass(frozen=True)
class PairCheck:
    """A pair and the findings.

    instead_of: the active deployment, None if there is none. edited: the corpus state above its index, None if no
    document was edited.
    """

    model: ModelVersion
    index: IndexGeneration
    instead_of: Deployment | None
    findings: tuple[Finding, ...]
    edited: CorpusState | None = None

    @property
    def refusal(self) -> str:
        """Why it cannot be deployed; empty if it can."""
        return " ".join(one.says for one in self.findings if one.verdict is Verdict.BAD)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a person must confirm, one sentence each."""
        return tuple(one.says for one in self.findings if one.verdict is Verdict.DOUBT)

    @property
    def brought(self) -> str:
        """What became of the edits of the active deployment's corpus; empty if there were none to bring over."""
        return " ".join(one.says for one in self.findings if one.about == _EDITED and one.verdict is Verdict.GOOD)

    @property
    def only_unmeasured(self) -> bool:
        """Whether nothing is doubted but how well it answers, which was never measured, and how many articles go."""
        return all(one.about in _ACCEPTED for one in self.findings if one.verdict is not Verdict.GOOD)

    @property
    def digest(self) -> str:
        """Digest of what a person confirms: this pair, in the place of that deployment, with these doubts."""
        said = [self.model.pk, self.index.pk, self.instead_of.pk if self.instead_of else None, *self.doubts]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


class OutOfDate(RealmError):
    """The findings of a check have changed since."""


class DeployedAlready(RealmError):
    """The pair is the active deployment's."""


class NotConfirmed(StateConflict, RealmError):
    """The check has doubts that are not, or not all, confirmed. check: with its findings."""

    def __init__(self, check: PairCheck) -> None:
        says = f"{' '.join(check.doubts)} To deploy it all the same, confirm that."
        super().__init__(says, doubts=list(check.doubts), confirm=check.digest)
        self.check = check


def check(index: IndexGeneration, model: ModelVersion | None = None) -> PairCheck:
    """Check `index` with `model` (default: the one that built it): compatibility, integrity, quality.

    Reads every file of the pair once; unchanged files are not read again.
    """
    model = model or index.model
    active = Deployment.active()
    edited = None if active is None else active.index.state_now()
    findings = [_fit(model, index), *_files(model, index), *_edits(index, active)]
    if all(one.verdict is not Verdict.BAD for one in findings):
        findings += _articles(index, active)
        findings += _purged(index)
        findings += _calibration(model, active)
        findings += _quality(model, index, active)
    return PairCheck(model, index, active, tuple(findings), edited)


def made_ready(
    index: IndexGeneration, *, model: ModelVersion | None = None, by: str, unmeasured: bool = False
) -> PairCheck:
    """Check a pair and, if there is nothing against it, prepare its index for `deploy_ready`. May take minutes.

    What was edited in the corpus that answers is brought over to the index if that is of the same corpus or a person
    wants it to answer, and what was purged is masked in it. unmeasured: a person wants it to answer although it was
    never measured, whatever articles go.
    RealmError or EditConflict if documents cannot be brought over: then it must not answer.
    """
    found = check(index, model)
    doubts = {one.about for one in found.findings if one.verdict is not Verdict.GOOD}
    if doubts - {_EDITED} - (_ACCEPTED if unmeasured else set()):
        return found
    earlier = None if found.instead_of is None else found.instead_of.index
    if _EDITED in doubts and earlier is not None and (unmeasured or earlier.corpus.name == index.corpus.name):
        _carry(earlier, index, by)
        says = bringing.told(earlier, index) or "This corpus has all edits of the active deployment's."
        brought = Finding(_EDITED, Verdict.GOOD, says)
        findings = tuple(brought if one.about == _EDITED else one for one in found.findings)
        found = replace(found, findings=findings)
    masks.mask_purged(index, by=by)
    return found


def edits_wait(index: IndexGeneration) -> bool:
    """Whether documents were edited in the corpus that answers that an index of the same corpus does not have."""
    active = Deployment.active()
    same = active is not None and active.index_id != index.pk and active.index.corpus.name == index.corpus.name
    return same and active is not None and bringing.edited_above(active.index, index) > 0


def bring_edits(index: IndexGeneration, *, by: User | str) -> None:
    """Make these edits above the index, too, so that it can be measured beside what answers. Errors as `made_ready`."""
    active = Deployment.active()
    if active is not None and edits_wait(index):
        _carry(active.index, index, by)


def _carry(earlier: IndexGeneration, index: IndexGeneration, by: User | str) -> None:
    fetch_files(earlier)
    bringing.carry(earlier, index, by=by)


def deploy_ready(found: PairCheck, *, by: str, note: str = "") -> Deployment:
    """Deploy a pair that is ready, in one short transaction: a caller may have begun it. Its doubts are accepted.

    RealmError if it cannot answer; DeployedAlready if it is the active one; OutOfDate if something changed since.
    """
    if found.refusal:
        raise RealmError(found.refusal)
    with transaction.atomic():
        active = Deployment.locked()
        if active is not None and active.index.state_now() != found.edited:
            raise OutOfDate("Documents were edited meanwhile; check again.")
        return _put_in_place("deploy", found, active, by, note)


def deploy(
    index: IndexGeneration,
    *,
    model: ModelVersion | None = None,
    by: User | str | None = None,
    note: str = "",
    confirmed: str | bool = False,
) -> Deployment:
    """Deploy `model` (default: the one that built `index`) with `index`.

    Every web process loads the pair beside the previous one and then switches. confirmed: the digest of the `check`
    whose doubts a person has read; True for a program that accepts any doubts. RealmError if the pair cannot answer,
    DeployedAlready if it is the active one, NotConfirmed for unconfirmed doubts.
    """
    return _activate("deploy", check(index, model), by, note, confirmed)


def roll_back(earlier: Deployment, *, by: User | None = None, confirmed: str | bool = False) -> Deployment:
    """Deploy an earlier deployment's pair again. Raises as `deploy` does."""
    return _activate(
        "roll-back", check(earlier.index, earlier.model), by, f"Back to deployment {earlier.pk}", confirmed
    )


def _activate(action: str, found: PairCheck, by: User | str | None, note: str, confirmed: str | bool) -> Deployment:
    if found.refusal:
        raise RealmError(found.refusal)
    if found.doubts and confirmed is not True and confirmed != found.digest:
        raise NotConfirmed(found)
    try:
        masks.mask_purged(found.index, by=by)
    except EditConflict:
        raise RealmError("Documents are being edited at this moment; deploy again.") from None
    with transaction.atomic():
        return _put_in_place(action, found, Deployment.locked(), by, note)


def _put_in_place(
    action: str, found: PairCheck, active: Deployment | None, by: User | str | None, note: str
) -> Deployment:
    """Activate a checked pair in the place of `active`, which is locked."""
    if active != found.instead_of:
        raise OutOfDate("Another deployment was activated meanwhile; check again.")
    if active is not None and (active.model_id, active.index_id) == (found.model.pk, found.index.pk):
        raise DeployedAlready(f"Deployment {active.pk} is active already, with the same model and the same index.")
    if masks.unmasked_purges(found.index) is not None:
        raise OutOfDate("Documents were purged meanwhile; check again.")
    person = by if isinstance(by, User) else None
    deployment = Deployment.activate(found.index, model=found.model, by=person, note=note)
    AuditEntry.record(
        action,
        f"{found.model} over {found.index.generation}",
        by=by,
        deployment=deployment.pk,
        instead_of=found.instead_of.pk if found.instead_of else None,
        found={one.about: one.says for one in found.findings},
        confirmed=[CONFIRMATION, *found.doubts] if found.doubts else [],
    )
    return deployment


# ---- findings


def _fit(model: ModelVersion, index: IndexGeneration) -> Finding:
    about = "Model and index"
    if index.folded_away:
        return Finding(about, Verdict.BAD, index.folded_away)
    if model.block_hash != index.model.block_hash:
        says = f"{model} embeds blocks differently from {index.model}, which built {index.generation}."
        return Finding(about, Verdict.BAD, says)
    own = model.pk == index.model_id
    says = "The model built this index." if own else f"It embeds blocks as {index.model} does, which built this index."
    return Finding(about, Verdict.GOOD, says)


def _files(model: ModelVersion, index: IndexGeneration) -> Iterator[Finding]:
    for what, path, verify in (
        ("model", model.path, partial(_verify_model, model)),
        ("index", index.path, verify_index),
        ("corpus", index.corpus.path, _verify_corpus),
    ):
        about = f"Files of the {what}"
        try:
            with low_priority():
                count = verify(get_folder(resolve(path)))
        except RealmError as error:
            yield Finding(about, Verdict.BAD, f"The {what} cannot be used: {error}")
        else:
            checked = "its file has" if count == 1 else f"all {count} files have"
            yield Finding(about, Verdict.GOOD, f"The {what} is whole: {checked} the checksum written beside it.")


def _verify_model(model: ModelVersion, folder: Path) -> int:
    """Number of its files; `RealmError` if one is damaged, or if the folder holds another model than the record."""
    found = read_hashes(folder)
    if found != (model.model_hash, model.block_hash):
        raise RealmError(f"{folder} holds another model by now: {found[0]}, not {model.model_hash}.")
    verified_weights(folder, read_json(folder / "config.json"))
    return 1


def _verify_corpus(folder: Path) -> int:
    from realm_core.corpus.store import verify_files  # imports pyarrow, which other processes do not need

    return verify_files(folder)


def _edits(index: IndexGeneration, active: Deployment | None) -> Iterator[Finding]:
    """Whether documents were edited in the active deployment's corpus which this one does not have."""
    if active is None or active.index_id == index.pk:
        return
    if number := bringing.edited_above(active.index, index):
        until = "bring them over under Documents"
        if lineage.state_joined(active.index, index) is not None:
            until = "join the corpora again"
        says = (
            f"Edits of {number:,} document{'' if number == 1 else 's'} in the active deployment’s corpus are missing "
            f"in this one, until you {until}."
        )
        yield Finding(_EDITED, Verdict.DOUBT, says)


def _articles(index: IndexGeneration, active: Deployment | None) -> list[Finding]:
    """How many articles and blocks are searched instead of those that are now."""
    if active is None or active.index.corpus_id == index.corpus_id:
        return []
    now, then = active.index.corpus, index.corpus
    says = (
        f"{_size_of(then)} take the place of {_size_of(now)} ({_more(then.articles - now.articles)} articles, "
        f"{_more(then.blocks - now.blocks)} blocks)."
    )
    if then.name != now.name and lineage.state_joined(active.index, index) is None:
        says = f"{says[:-1]}: questions are answered from {then.name} alone then, and no longer from {now.name}."
    fewer = then.articles < _FEWER * now.articles
    return [Finding(_ARTICLES, Verdict.DOUBT if fewer else Verdict.GOOD, says)]


def _size_of(corpus: CorpusSnapshot) -> str:
    return f"{counted(corpus.articles, 'article')} in {counted(corpus.blocks, 'block')}"


def _more(number: int) -> str:
    return f"{number:+,}".replace("-", "\N{MINUS SIGN}")


def _purged(index: IndexGeneration) -> list[Finding]:
    """Documents that were purged from its corpus, and that it still has."""
    found = masks.unmasked_purges(index)
    if found is None:
        return []
    number = len(found.places)
    says = (
        f"{number:,} document{' that was' if number == 1 else 's that were'} purged from this corpus "
        f"{'is' if number == 1 else 'are'} in this index, and will be masked before it answers."
    )
    return [Finding("Purged documents", Verdict.GOOD, says)]


def _calibration(model: ModelVersion, active: Deployment | None) -> list[Finding]:
    """Whether a training has taken the calibration away that the active deployment has."""
    if active is None or not _is_calibrated(active.model):
        return []
    about = "Calibration"
    if _is_calibrated(model):
        return [Finding(about, Verdict.GOOD, "When it is silent, and how sure it is, were fitted on questions.")]
    says = (
        "It was not calibrated since it was trained: it is silent by the threshold of the model that it was trained "
        "from, and its confidence was never compared with right answers. The job Calibrate makes one that is."
    )
    return [Finding(about, Verdict.DOUBT, says)]


def _is_calibrated(model: ModelVersion) -> bool:
    try:
        config = read_json(resolve(model.path) / "config.json")["model"]
    except (RealmError, KeyError, TypeError):  # of the active model nothing else is read here
        return False
    return any(config.get(name, fitted) != fitted for name, fitted in UNFITTED_CONFIDENCE.items())


def _quality(model: ModelVersion, index: IndexGeneration, active: Deployment | None) -> list[Finding]:
    """The quality compared with the active deployment, on each question set that both were measured on."""
    about = _QUALITY
    if active is None:
        return [Finding(about, Verdict.GOOD, "There is no active deployment to compare with.")]
    if active.model_id == model.pk and active.index.corpus_id == index.corpus_id:
        return [Finding(about, Verdict.GOOD, "The active deployment has the same model and the same corpus.")]
    pairs = comparing.measured_alike(
        comparing.Candidate(active.model, active.index.corpus), comparing.Candidate(model, index.corpus)
    )
    if not pairs:
        says = "It was never measured on the same questions as the active deployment."
        earlier = Deployment.objects.filter(model=model, index__corpus=index.corpus_id).order_by("-pk").first()
        if earlier is not None and earlier.deactivated_at is not None:
            says = f"It answered until {earlier.deactivated_at:%-d %b %Y, %H:%M} UTC, but {says[0].lower()}{says[1:]}"
        return [Finding(about, Verdict.DOUBT, says)]
    return [_compared(now, new) for now, new in pairs]


def _compared(now: Evaluation, new: Evaluation) -> Finding:
    about = f"{_QUALITY} on {new.questions.name}"
    try:
        difference = comparing.difference(now, new)
    except RealmError as error:
        return Finding(about, Verdict.DOUBT, f"How it does on {new.questions.name} cannot be compared: {error}")
    figures = (
        f"{100 * new.exact_match:.1f} % of {difference.n:,} questions right, {100 * now.exact_match:.1f} % by the "
        f"active deployment (difference {100 * difference.difference:+.1f}, 95 % interval {100 * difference.low:+.1f} "
        f"to {100 * difference.high:+.1f} points"
        f"{', which may be chance' if difference.difference and difference.may_be_chance else ''})."
    ).replace("-", "\N{MINUS SIGN}")
    if comparing.upgraded_between(now, new):
        figures += " Different versions of this program answered, so the difference is not theirs alone."
    if difference.difference < 0:
        return Finding(about, Verdict.DOUBT, f"It answers worse on {new.questions.name}: {figures}")
    return Finding(about, Verdict.GOOD, f"It does not answer worse on {new.questions.name}: {figures}")
