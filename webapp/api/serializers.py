"""What goes into the API and what comes out, as its documentation describes it.

Requests are checked strictly: a field of the wrong type, or one that does not exist, is an error that names
it, never silently converted or ignored. Answers are sent as they were stored, so their serialisers describe
and do not convert; a test compares them with the fields of realm_core.serving.provenance.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from rest_framework import serializers

from realm_core.evaluation.why import CAUSES, NOT_READ
from realm_core.settings import MAX_K
from realm_core.text.masked import MOST_MASKS
from webapp.models import AskedAnswer
from webapp.services import filling
from webapp.services.asking import DEFAULT_K, MAX_EXCLUDED, MAX_QUESTION_CHARACTERS


class StrictCharField(serializers.CharField):
    """A JSON string; numbers are not converted."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class StrictIntegerField(serializers.IntegerField):
    """A JSON integer; neither "5" nor 5.0 nor true."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class StrictBooleanField(serializers.BooleanField):
    """A JSON true or false; neither "yes" nor 1."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


def person_field() -> serializers.SlugRelatedField[User]:
    """A person by the name that they log in with; null for none, and for one who is no more."""
    return serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True, help_text="User name.")


class RecordSerializer(serializers.ModelSerializer[Any]):
    """A record that is only shown: every field is always there."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """The fields, all of them read-only."""
        fields = super().get_fields()
        for field in fields.values():
            field.read_only = True
        return fields


class StrictSerializer(serializers.Serializer[Any]):
    """A request whose every field is known."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = {name: ["There is no such field."] for name in data if name not in self.fields}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class QuestionSerializer(StrictSerializer):
    """A question. Lengths and ranges are checked where all ways of asking pass (services.asking)."""

    question = StrictCharField(
        trim_whitespace=False,
        allow_blank=True,
        help_text=f"At most {MAX_QUESTION_CHARACTERS} characters after folding white space; must not be empty.",
    )
    k = StrictIntegerField(default=DEFAULT_K, help_text=f"How many blocks to read, 1 to {MAX_K}.")
    exclude = serializers.ListField(
        child=StrictCharField(trim_whitespace=False, allow_blank=True),
        default=list,
        help_text=f"Ids of blocks that must not be read, at most {MAX_EXCLUDED}.",
    )


class SentenceSerializer(StrictSerializer):
    """A sentence with gaps. Lengths and ranges are checked where page and API pass (services.filling)."""

    sentence = StrictCharField(
        trim_whitespace=False,
        allow_blank=True,
        help_text=f"With [MASK] for each missing wordpiece, 1 to {MOST_MASKS} of them; at most "
        f"{filling.MAX_SENTENCE_CHARACTERS} characters after folding white space.",
    )
    k = StrictIntegerField(
        default=filling.DEFAULT_K, help_text=f"How many blocks to read, the null block counted, 2 to {MAX_K}."
    )
    exclude = serializers.ListField(
        child=StrictCharField(trim_whitespace=False, allow_blank=True),
        default=list,
        help_text=f"Ids of blocks that must not be read, at most {MAX_EXCLUDED}.",
    )
    truth = StrictCharField(
        default=None,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        help_text="What stands behind the masks; its probabilities are given, too. A single [MASK] becomes as many as "
        "it has wordpieces, several must be as many.",
    )


class RankedAnswerSerializer(serializers.Serializer[Any]):
    """A candidate answer with its probability."""

    text = serializers.CharField(help_text="In the casing and spacing of the text that it was read from.")
    probability = serializers.FloatField(help_text="Sum over the blocks read of prior × likelihood.")
    also = serializers.ListField(
        child=serializers.CharField(),
        required=False,  # answers that were kept before it existed have none
        help_text="Other wordings in the evidence that name the same thing; their probability is in the sum.",
    )
    likelihood = serializers.FloatField(
        required=False,  # likewise
        allow_null=True,
        help_text="p(answer | block, question) of the block where it is highest.",
    )


class CandidateSerializer(serializers.Serializer[Any]):
    """An answer that one block offers."""

    key = serializers.CharField(help_text="The normalised answer: equal keys are the same answer.")
    text = serializers.CharField()
    likelihood = serializers.FloatField(help_text="p(answer | block, question).")
    start = serializers.IntegerField(help_text="Where its best reading starts, in characters of the block's text.")
    end = serializers.IntegerField()


class EvidenceSerializer(serializers.Serializer[Any]):
    """A block that was read. Likelihood, posterior and support refer to what the answer `explains`."""

    rank = serializers.IntegerField(help_text="1 is the highest posterior.")
    block_id = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField(allow_null=True, help_text="Where the block says it; null: it offers no span.")
    end = serializers.IntegerField(allow_null=True)
    prior = serializers.FloatField(help_text="p(block | question); sums to one over the blocks read.")
    likelihood = serializers.FloatField(help_text="p(answer | block, question).")
    posterior = serializers.FloatField(help_text="p(block | answer, question); sums to one over the blocks read.")
    support = serializers.FloatField(help_text="Posterior − prior; positive: the block spoke for the answer.")
    retriever_score = serializers.FloatField(
        help_text="f(block, question): inner product of their vectors, divided by the model's prior temperature."
    )
    retriever_prior = serializers.FloatField(help_text="Softmax of the retriever's scores over the blocks read.")
    no_answer_likelihood = serializers.FloatField(allow_null=True, help_text='p("not here" | block, question).')
    candidates = CandidateSerializer(many=True)


class ReadingSerializer(serializers.Serializer[Any]):
    """An answer with everything that it was made from."""

    question = serializers.CharField()
    answer = RankedAnswerSerializer(allow_null=True, help_text="Null: no answer was found in the blocks read.")
    no_answer_probability = serializers.FloatField(
        allow_null=True, help_text="Probability that the blocks hold no answer; null where it is not defined."
    )
    answers = RankedAnswerSerializer(many=True, help_text="All candidates, the most probable first.")
    evidence = EvidenceSerializer(many=True, help_text="The blocks read, the highest posterior first.")
    explains = serializers.ChoiceField(
        choices=["answer", "no_answer", "candidate"],
        help_text="What the evidence's likelihood, posterior and support are about.",
    )
    normalisation = serializers.CharField(help_text="How the reader's probabilities are normalised.")
    min_probability = serializers.FloatField(
        help_text="A candidate below this is not given as the answer (its share against “not here”, if there is one)."
    )
    confidence = serializers.FloatField(
        allow_null=True,
        help_text="How often answers like the best one are right, as measured on questions with known answers: "
        "σ(slope · logit(share) + likelihood · logit(likelihood) + margin · log(p / p of the next answer) + offset), "
        "its share being that against “not here”; null: no block offers one.",
    )
    confidence_slope = serializers.FloatField(help_text="Of the model, see `confidence`.")
    confidence_offset = serializers.FloatField(help_text="Of the model, see `confidence`.")
    confidence_likelihood = serializers.FloatField(required=False, help_text="Of the model, see `confidence`.")
    confidence_margin = serializers.FloatField(required=False, help_text="Of the model, see `confidence`.")
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()
    latency_ms = serializers.FloatField()
    timings_ms = serializers.DictField(child=serializers.FloatField())


class AnswerSerializer(ReadingSerializer):
    """A kept answer."""

    id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    without = serializers.ListField(
        child=serializers.CharField(), help_text="Blocks that were taken away again by `?without=`."
    )
    serving_ms = serializers.DictField(
        child=serializers.FloatField(), help_text="What keeping the answer took: `store`; {} where that is not known."
    )


class RightAnswerSerializer(StrictSerializer):
    """The right answer. Its length is checked where page and API pass (services.why)."""

    answer = StrictCharField(
        trim_whitespace=False, allow_blank=True, help_text="A name, a date, a phrase: at most 300 characters."
    )


class ContenderSerializer(serializers.Serializer[Any]):
    """An answer, and the block that speaks for it most."""

    text = serializers.CharField(allow_null=True, help_text="Null: “not here”, or that no span of the block is right.")
    probability = serializers.FloatField(help_text="Over all blocks; under `misread`, in this block.")
    block_id = serializers.CharField()
    title = serializers.CharField()


class WhySerializer(serializers.Serializer[Any]):
    """Why an answer is wrong."""

    cause = serializers.ChoiceField(
        choices=[*CAUSES, NOT_READ],
        help_text="`right`: it is not wrong. `withheld`: the best candidate is right, but too unlikely to be given. "
        "`outweighed`: a block read says it, another answer is likelier over all blocks. `misread`: the blocks read "
        "that hold it were read as saying something else, or nothing. `not_retrieved`: only blocks that were not read "
        "hold it. `not_in_corpus`: no block does. `not_read`: no block read does, and of others it is not known.",
    )
    detail = serializers.CharField(help_text="The same in plain sentences, with what could not be found out.")
    chosen = ContenderSerializer(allow_null=True, help_text="What was chosen (`outweighed`, `misread`).")
    right = ContenderSerializer(allow_null=True, help_text="The right answer, where a block read holds it.")
    no_answer_probability = serializers.FloatField(
        allow_null=True, help_text="Of “not here”: in the right block (`misread`), of all blocks (`withheld`)."
    )
    rank = serializers.IntegerField(
        allow_null=True, help_text="Of the best block that holds it (`not_retrieved`); null: not known, or far behind."
    )
    looked_at = serializers.IntegerField(
        allow_null=True, help_text="How many ranks were looked at; 0: they are not known."
    )


class ListedAnswerSerializer(RecordSerializer):
    """A kept answer in a list; at its own address it is whole."""

    answer = serializers.CharField(source="answer_text", allow_null=True, help_text="Null: none was found.")

    class Meta:
        model = AskedAnswer
        fields = [
            *("id", "question", "answer", "probability", "no_answer_probability", "k", "deployment", "latency_ms"),
            "created_at",
        ]


class RetrievedBlockSerializer(serializers.Serializer[Any]):
    """A block that was found and not read."""

    rank = serializers.IntegerField()
    block_id = serializers.CharField()
    title = serializers.CharField()
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    score = serializers.FloatField(help_text="Inner product of question and block vectors.")
    prior = serializers.FloatField(help_text="Softmax of the scores over the blocks found.")


class RetrievalSerializer(serializers.Serializer[Any]):
    """The best blocks for a question."""

    question = serializers.CharField()
    blocks = RetrievedBlockSerializer(many=True)
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()


class WordSerializer(serializers.Serializer[Any]):
    """A wordpiece for one mask."""

    text = serializers.CharField(help_text="As in the vocabulary: lower case, ## where it goes on with a word.")
    probability = serializers.FloatField()


class MaskSerializer(serializers.Serializer[Any]):
    """The likeliest wordpieces for one mask, in each of the three ways."""

    without_retrieval = WordSerializer(many=True)
    best_block = WordSerializer(many=True, help_text="Empty where no block but the null block was read.")
    marginal = WordSerializer(many=True)


class GuessSerializer(serializers.Serializer[Any]):
    """Wordpieces for all masks together, with their probability in each of the three ways."""

    words = serializers.ListField(child=serializers.CharField())
    text = serializers.CharField(help_text="The same as one reads them.")
    without_retrieval = serializers.FloatField(help_text="p(y | ∅, x), ∅ the null block.")
    best_block = serializers.FloatField(allow_null=True, help_text="p(y | z, x), z the best block.")
    marginal = serializers.FloatField(help_text="p(y | x): the sum over the blocks read of prior × likelihood.")


class FillingEvidenceSerializer(serializers.Serializer[Any]):
    """A block that was read. Likelihood, posterior and utility are about what the filling `explains`."""

    rank = serializers.IntegerField(help_text="1 is the highest posterior.")
    block_id = serializers.CharField(allow_null=True, help_text="Null: the null block, which has no text.")
    title = serializers.CharField(allow_blank=True)
    text = serializers.CharField(allow_blank=True)
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True)
    prior = serializers.FloatField(help_text="p(z | x); sums to one over the blocks read.")
    likelihood = serializers.FloatField(help_text="p(y | z, x).")
    posterior = serializers.FloatField(help_text="p(z | y, x); sums to one over the blocks read.")
    utility = serializers.FloatField(
        help_text="Retrieval utility, log p(y | z, x) − log p(y | ∅, x); positive: the block helps."
    )
    retriever_score = serializers.FloatField(help_text="Inner product of sentence and block vectors.")


class FillingSerializer(serializers.Serializer[Any]):
    """A sentence filled without retrieval, from its best block, and from all blocks read together."""

    sentence = serializers.CharField(help_text="With one [MASK] for each wordpiece that was looked for.")
    guesses = GuessSerializer(many=True, help_text="Words for all masks together, the highest marginal first.")
    truth = GuessSerializer(allow_null=True, help_text="The same of the truth, where it was given.")
    explains = serializers.ChoiceField(
        choices=["truth", "guess"], help_text="What the evidence is about: the truth, or the first guess."
    )
    masks = MaskSerializer(many=True, help_text="The likeliest wordpieces for each mask by itself.")
    best_block_id = serializers.CharField(
        allow_null=True, help_text="Which block “best block” means: the one with the highest posterior."
    )
    evidence = FillingEvidenceSerializer(many=True, help_text="The blocks read, the highest posterior first.")
    model = serializers.CharField()
    index = serializers.CharField()
    corpus = serializers.CharField()
    latency_ms = serializers.FloatField()
    timings_ms = serializers.DictField(child=serializers.FloatField())


class BlockSerializer(serializers.Serializer[Any]):
    """A block of a corpus."""

    block_id = serializers.CharField()
    title = serializers.CharField(help_text="The article's title.")
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True, help_text="The article at its source.")
    start = serializers.IntegerField(help_text="Where the block starts in the article's text, in characters.")
    end = serializers.IntegerField()
    previous = serializers.CharField(allow_null=True, help_text="Id of the block before it in the article.")
    next = serializers.CharField(allow_null=True)
    corpus = serializers.CharField(help_text="Name and id of the corpus snapshot that it was found in.")


class PlaceSerializer(serializers.Serializer[Any]):
    """Where a block stands in its article."""

    block_id = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField(help_text="In characters of the article's text.")
    end = serializers.IntegerField()


class ArticleSerializer(serializers.Serializer[Any]):
    """An article of a corpus."""

    title = serializers.CharField()
    text = serializers.CharField(help_text="Plain text without headings.")
    url = serializers.CharField(allow_blank=True, help_text="The article at its source.")
    licence = serializers.CharField(allow_blank=True, help_text="Of the corpus.")
    attribution = serializers.CharField(allow_blank=True, help_text="Whom to name.")
    blocks = PlaceSerializer(many=True, help_text="The pieces that are found and read, in order.")
    corpus = serializers.CharField(help_text="Name and id of the corpus snapshot that it was found in.")


class FieldErrorSerializer(serializers.Serializer[Any]):
    """What is wrong with one field."""

    field = serializers.CharField(allow_blank=True, help_text="Empty: the body as a whole.")
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    retry_after_s = serializers.IntegerField(
        required=False, help_text="Among the results of a batch: ask this question again after so many seconds."
    )
    request_id = serializers.CharField(required=False, help_text="What the log calls this request.")
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]  # a field, not Serializer.errors
    job = serializers.URLField(required=False, help_text="The job that does the same already.")
    doubts = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="What `confirm` would confirm, a sentence each."
    )
    confirm = serializers.CharField(
        required=False, help_text="Sent back as `confirm`, it confirms these doubts, and no others."
    )
