#!/usr/bin/env bash
# Make models/realm-mini anew: models/realm-mini.sh QUESTIONS ENWIKI WORK
#   QUESTIONS  folder with squad-38-articles (.jsonl; see models/realm-mini/README.md for where it comes from), and the
#              question files of `models/realm-base.sh`
#   ENWIKI     whole articles as JSON lines (id, title, text), .xz: English Wikipedia of May 2015, oldest page ids
#   WORK       folder for everything on the way (about 1 GB); run again, it goes on where it stopped
#   REALM_BASE_WORK  in the environment: the WORK of `models/realm-base.sh`, whose reader teaches this one in the end
# About six hours on two cores with bfloat16 instructions.
set -euo pipefail
questions=$1 enwiki=$2 work=$3
realm() { python -m realm_core "$@"; }
mkdir -p "$work"

realm ingest --source vital --name vital --output "$work/corpora"
realm ingest --source default --name default --output "$work/corpora"
vital=$(echo "$work"/corpora/vital/*/) default=$(echo "$work"/corpora/default/*/)

# What is read while learning: the default corpus, the beginnings of 27,933 more articles, and SQuAD's contexts but for
# three articles and every other question, which are kept to measure by.
if [ ! -e "$work/articles.jsonl" ]; then
  python - "$questions/squad-38-articles.jsonl" "$enwiki" "$vital" "$work" <<'CUT'
import hashlib, json, lzma, sys
from pathlib import Path
from realm_core.corpus.store import Snapshot
from realm_core.text.sentences import sentence_spans

squad, enwiki, vital, work = map(Path, sys.argv[1:])
made = work / "articles.jsonl.tmp"
with made.open("w") as articles:
    def write(name, title, text):
        print(json.dumps({"id": name, "title": title, "text": text}), file=articles)

    rows = [json.loads(line) for line in squad.open()]
    held = sorted({row["title"] for row in rows}, key=lambda title: hashlib.sha256(title.encode()).digest())[:3]
    learnt = [row for row in rows if row["title"] not in held]
    for number, (title, context) in enumerate(dict.fromkeys((row["title"], row["context"]) for row in learnt)):
        write(f"squad-{number}", title, context)
    (work / "squad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in learnt[::2]))

    for line in lzma.open(enwiki, "rt"):
        article = json.loads(line)
        text = article["text"][:2200]
        last = text.rfind(". ")
        if len(article["text"]) > 2200 and last > 500:
            text = text[: last + 1]
        first, end = None, 0
        for start, stop in sentence_spans(text) if text.strip() else []:
            if first is not None and stop - first > 700:
                break
            first, end = start if first is None else first, stop
        if first is not None:
            write(f"{article['id']}-0", article["title"], text[first:end])

    snapshot = Snapshot.open(vital)
    for row in range(len(snapshot)):
        write(f"vital-{row}", snapshot.block(row).title, snapshot.block(row).text)
made.replace(work / "articles.jsonl")
CUT
fi
realm ingest --source jsonl --path "$work/articles.jsonl" --name learnt-from --output "$work/corpora"
corpus=$(echo "$work"/corpora/learnt-from/*/)

[ -d "$work/warm" ] || realm warmstart --corpus "$vital" --set dimension=256 --output "$work/warm"
realm index --model "$work/warm" --corpus "$corpus" --output "$work/indexes" --generation warm

[ -d "$work/tuned" ] || realm finetune --model "$work/warm" --corpus "$corpus" --index "$work/indexes/warm" \
  --questions "$questions"/{curatedtrec-train,webquestions-train,nq-open-train-slice,triviaqa-dev}.jsonl \
  models/questions/plain-train.jsonl "$work/squad.jsonl" \
  --exclude-titles models/questions/held-out-titles.json --config models/recipes/mini-first.toml \
  --run "$work/run" --output "$work/tuned"

[ -d "$work/tuned-2" ] || realm finetune --model "$work/tuned" --corpus "$corpus" --index "$work/indexes/warm" \
  --questions models/questions/plain-train.jsonl "$questions"/{curatedtrec-train,webquestions-train}.jsonl \
  --exclude-titles models/questions/held-out-titles.json --config models/recipes/mini-second.toml \
  --run "$work/run-2" --output "$work/tuned-2"

# What realm-base's rows are mined with, and its retriever.
[ -d "$work/retriever" ] || realm pack --model "$work/tuned-2" --output "$work/retriever" --query int8 --reader int8
realm index --model "$work/retriever" --corpus "$vital" --output "$work/indexes" --generation vital
# The vectors of the default corpus go along, so that nobody has to compute them before the first question.
realm index --model "$work/retriever" --corpus "$default" --output "$work/retriever" \
  --generation vectors

# From here on `models/realm-base.sh` must have been run, with $work/retriever as its retriever: its readers teach, the
# first one and then the second.
[ -d "$work/taught" ] || realm train-reader --model "$work/retriever" --teacher "$REALM_BASE_WORK/first" \
  --rows "$REALM_BASE_WORK/rows.jsonl" --config models/recipes/mini-third.toml --run "$work/run-3" --output "$work/taught"
[ -d "$work/taught-2" ] || realm train-reader --model "$work/taught" --teacher "$REALM_BASE_WORK/read" \
  --rows "$REALM_BASE_WORK"/{people,agreed,passages}.jsonl --config models/recipes/mini-fourth.toml \
  --run "$work/run-4" --output "$work/taught-2"
[ -d "$work/packed" ] || realm pack --model "$work/taught-2" --name realm-mini --output "$work/packed" --query delta4 \
  --reader delta4 --normalisation block+null
# On a GPU: taught by the fifth reader of realm-base, the blocks of a question together.
[ -d "$work/taught-3" ] || realm train-reader --model "$work/packed" --teacher "$REALM_BASE_WORK/fifth" \
  --rows "$REALM_BASE_WORK"/asked{,,}.jsonl "$REALM_BASE_WORK"/asked-{rest,more,people}.jsonl \
  --config models/recipes/mini-fifth.toml --run "$work/run-5" --output "$work/taught-3"
# The query embedder alone: which of the blocks near a question hold its answer, in two corpora.
not_learnt=(--without "$REALM_BASE_WORK"/open-dev/*.jsonl models/questions/*-dev.jsonl models/questions/plain-test.jsonl
  "$questions"/measured/*.jsonl --exclude-titles models/questions/held-out-titles.json)
[ -d "$work/finding" ] || realm train-retriever --model "$work/taught-3" --index "$REALM_BASE_WORK"/indexes/{leads,vital} \
  --questions "$questions"/{webquestions-train,curatedtrec-train,nq-open-train-slice,triviaqa-dev}.jsonl \
  "$questions"/{freebaseqa-dev-eval,mintaka-dev,ambignq-train,ambignq-train-disambig,squad1-train-qa-only}.jsonl \
  "$questions"/{squad1-train-rc,entityquestions-train,qed-nqtrain-rc}.jsonl models/questions/{people,people-more,plain}-train.jsonl \
  "${not_learnt[@]}" --config models/recipes/mini-retriever.toml --run "$work/run-finding" --output "$work/finding"
[ -d "$work/realm-mini" ] || realm calibrate --model "$work/finding" --index "$work/retriever/vectors" --corpus "$default" \
  --questions models/questions/{examiner-plain,examiner-casual,stranger,attributes,casual,plain}-dev.jsonl \
  --unanswerable models/questions/{examiner-none,unanswerable}-dev.jsonl --allowed 0.06 --lexical-weight 0.1 \
  --other-index "$REALM_BASE_WORK/indexes/leads" --other-corpus "$(echo "$REALM_BASE_WORK"/corpora/leads/*/)" \
  --other-questions "$REALM_BASE_WORK"/open-dev/*.jsonl \
  --output "$work/realm-mini"
