#!/usr/bin/env bash
# Train both shipped models from nothing: models/train.sh QUESTIONS ENWIKI WORK
#   QUESTIONS  folder of question files; models/recipes/README.md lists them
#   ENWIKI     whole articles as JSON lines (id, title, text), .xz: English Wikipedia of May 2015, the oldest page ids
#   WORK       folder for all that is made (about 8 GB), at last realm-mini and realm-base; run again, it goes on where
#              it stopped
# Each of the two learns from the other, so this is one recipe in six stages:
#   1  realm-mini's retriever, which finds what all later stages read
#   2  realm-base's first and second reader
#   3  realm-mini's reader, taught by these
#   4  realm-base's third to fifth reader, first by blocks that realm-mini's reader agrees to
#   5  realm-mini: its reader taught by the fifth, its query embedder trained further
#   6  realm-base: its readers mixed, with that query embedder, and a sixth reader for varied questions; realm-mini's
#      is taught by it
# About eleven hours on two cores with bfloat16 instructions, and ten minutes on a GPU for the last readers of stages 4
# and 5, which take days without one.
set -euo pipefail
shopt -s nullglob
: "${3:?usage: models/train.sh QUESTIONS ENWIKI WORK}"
questions=$(realpath -m "$1") enwiki=$(realpath -m "$2") work=$(realpath -m "$3")
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
own=models/questions

realm() { "$python" -m realm_core "$@"; }
make() { # OUTPUT, then activity and options: unless it is there already
  [ -e "$work/$1" ] || realm "${@:2}" --output "$work/$1"
}
train() { # OUTPUT, SETTINGS, then activity and options
  make "$1" "${@:3}" --config "models/recipes/$2.toml" --run "$work/$1.run"
}
ingest() { realm ingest --name "$1" --output "$work/corpora" "${@:2}"; } # NAME, then options
index() { # MODEL, CORPUS: an index, which is named after its corpus
  realm index --model "$work/$1" --corpus "$work/corpora/$2"/*/ --output "$work/indexes" --generation "$2"
}
draw() { # COUNT, PATTERN, files: lines of the files that match, chosen at random but always the same
  grep -h "$2" "${@:3}" | shuf -n "$1" --random-source=<(yes)
}

trec_webq=("$questions"/{curatedtrec,webquestions}-train.jsonl)
trivia=("$questions"/{triviaqa-dev,freebaseqa-dev-eval,mintaka-dev}.jsonl)
nq=("$questions"/nq-open-train-slice.jsonl) ambignq=("$questions"/ambignq-train{,-disambig}.jsonl)
passages=("$questions"/{squad1-train-rc,squad-38-articles,qed-nqtrain-rc}.jsonl)
hotpot=$questions/hotpotqa-rpt-rc.jsonl squad_alone=$questions/squad1-train-qa-only.jsonl
entities=("$questions"/entityquestions-{train,dev}.jsonl)
for file in "${trec_webq[@]}" "${trivia[@]}" "${nq[@]}" "${ambignq[@]}" "${passages[@]}" "$hotpot" "$squad_alone" \
  "${entities[@]}" "$enwiki"; do
  [ -e "$file" ] || { echo "$file is missing; models/recipes/README.md tells what it is." >&2; exit 2; }
done
mkdir -p "$work"/{mini,base,open-dev}

# ── Corpora, and questions to choose by ─────────────────────────────────────────────────────────────────────────────

ingest vital --source vital
ingest default --source default # what people ask, and so what is calibrated on
# What is read while learning: the default corpus, the beginnings of 27,933 more articles, and SQuAD's contexts but for
# three articles and every other question, which are kept to measure by. Then the articles' first 300 and 1,000 words.
[ -e "$work/articles.jsonl" ] || "$python" - "${passages[1]}" "$enwiki" "$work"/corpora/vital/*/ "$work" <<'CUT'
import hashlib, json, lzma, re, sys
from pathlib import Path
from realm_core.corpus.store import Snapshot
from realm_core.text.sentences import sentence_spans

squad, enwiki, vital, work = map(Path, sys.argv[1:])
made = work / "articles.jsonl.tmp"
leads, beginnings = ((work / f"{name}.jsonl").open("w") for name in ("leads", "beginnings"))
with made.open("w") as articles, leads, beginnings:
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
        words = [word.end() for word in re.finditer(r"\S+", article["text"])]
        for file, count in ((leads, 300), (beginnings, 1000)):
            print(json.dumps({**article, "text": article["text"][: max(words[:count], default=0)]}), file=file)
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
ingest learnt-from --source jsonl --path "$work/articles.jsonl"
ingest leads --source jsonl --path "$work/leads.jsonl" --licence "CC BY-SA 3.0"
ingest beginnings --source jsonl --path "$work/beginnings.jsonl" --licence "CC BY-SA 3.0"

for set in nq-open-train-slice:150 ambignq-train:100 triviaqa-dev:120 entityquestions-dev:120 webquestions-train:250 \
  curatedtrec-train:150; do # open questions that are not trained on, for temperatures and confidence
  file=$work/open-dev/${set%:*}-unseen.jsonl
  [ -e "$file" ] || draw "${set#*:}" . "$questions/${set%:*}.jsonl" > "$file"
done
titles=(--exclude-titles "$own/held-out-titles.json")
not_learnt=(--without "$work"/open-dev/*.jsonl "$own"/*-dev.jsonl "$own/plain-test.jsonl" "$questions"/measured/*.jsonl
  "${titles[@]}")

# ── 1 realm-mini's retriever ────────────────────────────────────────────────────────────────────────────────────────

make mini/warm warmstart --corpus "$work"/corpora/vital/*/ --set dimension=256
index mini/warm learnt-from
train mini/tuned mini-first finetune --model "$work/mini/warm" --index "$work/indexes/learnt-from" "${titles[@]}" \
  --questions "${trec_webq[@]}" "${nq[@]}" "${trivia[0]}" "$own/plain-train.jsonl" "$work/squad.jsonl"
train mini/tuned-2 mini-second finetune --model "$work/mini/tuned" --index "$work/indexes/learnt-from" "${titles[@]}" \
  --questions "$own/plain-train.jsonl" "${trec_webq[@]}"
make mini/retriever pack --model "$work/mini/tuned-2" --query int8 --reader int8
# Training leaves block vectors as they are, so these indexes are those of all models below.
for corpus in vital default leads beginnings; do index mini/retriever "$corpus"; done

# ── 2 realm-base's first and second reader ──────────────────────────────────────────────────────────────────────────

mine() { # NAME, SETTINGS, MODEL, CORPUS, then question files and options: rows to learn from
  make "base/$1.jsonl" mine --config "models/recipes/base-$2.toml" --model "$work/$3" --index "$work/indexes/$4" \
    --questions "${@:5}" "${not_learnt[@]}"
}
read_rows() { # NAME, MODEL, then files of rows
  train "base/$1" "base-$1" train-reader --model "$work/base/$2" --rows "${@:3}"
}
make base/warm warmstart --corpus "$work"/corpora/vital/*/ --set dimension=256 --set 'reader_base="all_mpnet_base_v2"'
mine rows first-rows mini/retriever vital "${passages[@]}" "$hotpot" "${trec_webq[@]}" "$own/plain-train.jsonl"
read_rows first warm "$work/base/rows.jsonl"
make base/combined combine --retriever "$work/mini/retriever" --reader "$work/base/first"

# Over passages, over what people ask, and over what the first reader agrees to in retrieved blocks.
mine passages passages base/combined vital "${passages[@]}" "$hotpot"
mine people people base/combined vital "$own"/{people-train,plain-train}.jsonl \
  --unanswerable "$own/people-none-train.jsonl"
mine agreed agreed base/combined leads "${trec_webq[@]}" "${nq[@]}" "${ambignq[0]}" "${trivia[0]}" "$squad_alone" \
  "${entities[0]}"
second=("$work"/base/{people,agreed,passages}.jsonl)
read_rows second combined "${second[@]}"
make base/packed pack --model "$work/base/second" --name realm-base --query delta4 --reader delta4 \
  --normalisation block+null

# ── 3 realm-mini's reader, taught by these ──────────────────────────────────────────────────────────────────────────

teach() { # NAME, SETTINGS, MODEL, TEACHER, then files of rows
  train "mini/$1" "$2" train-reader --model "$work/mini/$3" --teacher "$work/base/$4" --rows "${@:5}"
}
teach taught mini-third retriever first "$work/base/rows.jsonl"
teach taught-2 mini-fourth taught second "${second[@]}"
make mini/packed pack --model "$work/mini/taught-2" --name realm-mini --query delta4 --reader delta4 \
  --normalisation block+null

# ── 4 realm-base's third to fifth reader ────────────────────────────────────────────────────────────────────────────

# Two of low rank: an adapter beside the packed weights. Open questions over the first 1,000 words of articles.
mine open open mini/packed beginnings "${trec_webq[@]}" "${nq[@]}" "${ambignq[0]}" "${trivia[@]}" "$squad_alone"
mine passages-more passages-more base/combined vital "${passages[@]}"
mine people-more people-more base/combined vital "$own"/people{,-more}-train.jsonl \
  --unanswerable "$own"/people{,-more}-none-train.jsonl
rows=$work/base holds='"answers": \["' lacks='"answers": \[\]'
{ grep -h "$holds" "$rows/open.jsonl"; draw 4500 "$lacks" "$rows/open.jsonl"; draw 6500 . "$rows/passages-more.jsonl"
  draw 4500 . "$rows/people-more.jsonl"; } > "$rows/rows-third.jsonl"
{ draw 7000 . "$rows/passages-more.jsonl"; draw 3000 . "$rows/people-more.jsonl"
  draw 1000 "$lacks" "$rows/open.jsonl"; } > "$rows/rows-fourth.jsonl"
read_rows third packed "$rows/rows-third.jsonl"
read_rows fourth third "$rows/rows-fourth.jsonl"

# On a GPU: the ten best blocks of each question together, answers sought by all of them.
mine asked asked mini/packed beginnings "${trec_webq[@]}"
mine asked-rest asked mini/packed beginnings "${nq[@]}" "${trivia[@]}"
mine asked-more asked-more mini/packed beginnings "${ambignq[@]}" "$squad_alone" "${passages[0]}" "${entities[0]}" \
  "${passages[2]}"
mine asked-people asked-people mini/packed vital "$own"/{people,people-more,plain}-train.jsonl \
  --unanswerable "$own"/people{,-more}-none-train.jsonl
together=("$rows"/asked{,,}.jsonl "$rows"/asked-{rest,more,people}.jsonl)
read_rows fifth fourth "${together[@]}"

# ── 5 realm-mini ────────────────────────────────────────────────────────────────────────────────────────────────────

teach taught-3 mini-fifth packed fifth "${together[@]}" # on a GPU
# The query embedder alone: which of the blocks near a question hold its answer, in two corpora.
train mini/finding mini-retriever train-retriever --model "$work/mini/taught-3" --index "$work"/indexes/{leads,vital} \
  --questions "${trec_webq[@]}" "${nq[@]}" "${trivia[@]}" "${ambignq[@]}" "$squad_alone" "${passages[0]}" \
  "${entities[0]}" "${passages[2]}" "$own"/{people,people-more,plain}-train.jsonl "${not_learnt[@]}"
calibrate() { # OUTPUT, MODEL, ALLOWED. What ships was calibrated a little differently, see realm-base/README.md
  make "$1" calibrate --model "$work/$2" --index "$work/indexes/default" --allowed "$3" --lexical-weight 0.1 \
    --questions "$own"/{examiner-plain,examiner-casual,stranger,attributes,casual,plain}-dev.jsonl \
    --unanswerable "$own"/{examiner-none,unanswerable}-dev.jsonl \
    --other-index "$work/indexes/leads" --other-questions "$work"/open-dev/*.jsonl
}

# ── 6 realm-base ────────────────────────────────────────────────────────────────────────────────────────────────────

# The fifth reads more answers out of open questions, and writes shorter ones; three fifths of its change keep both.
make base/mixed combine --retriever "$work/base/fourth" --reader "$work"/base/{fourth,fifth} --shares 0.4 0.6 --rank 32
make base/finding combine --retriever "$work/mini/finding" --reader "$work/base/mixed"
# Varied questions over the default corpus, with tempting wrong spans, and a third of older ones.
mine varied varied mini/finding default "$own"/{varied,people,people-more,plain,words}-train.jsonl \
  --unanswerable "$own"/{varied,people,people-more}-none-train.jsonl
{ cat "$rows/varied.jsonl"; head -n 4200 "$rows/asked-rest.jsonl"; } > "$rows/rows-sixth.jsonl"
read_rows sixth finding "$rows/rows-sixth.jsonl"
teach taught-4 mini-sixth finding sixth "$rows/rows-sixth.jsonl"
calibrate realm-mini mini/taught-4 0.1
make base/halved combine --retriever "$work/base/finding" --reader "$work"/base/{finding,sixth} --shares 0.5 0.5 --rank 32
calibrate realm-base base/halved 0.04
# The vectors of the default corpus go along, so that nobody has to compute them before the first question.
make realm-base/vectors ship-vectors --index "$work/indexes/default"
