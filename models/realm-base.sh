#!/usr/bin/env bash
# Make models/realm-base anew: models/realm-base.sh QUESTIONS LEADS WORK
#   QUESTIONS  folder with squad1-train-rc, squad1-train-qa-only, squad-38-articles, qed-nqtrain-rc, hotpotqa-rpt-rc,
#              webquestions-train, curatedtrec-train, nq-open-train-slice, ambignq-train, triviaqa-dev and
#              entityquestions-train (.jsonl; see models/realm-base/README.md for where they come from), and in a folder
#              measured/ the question files to leave questions out of
#   LEADS      JSON lines of the first 300 words of Wikipedia articles (docs/results.md makes them)
#   WORK       folder for everything on the way (about 6 GB); run again, it goes on where it stopped
# Three hours on two cores with bfloat16 instructions. The retriever is realm-mini's; the reader alone is trained.
set -euo pipefail
questions=$1 leads=$2 work=$3
realm() { python -m realm_core "$@"; }
settings() { echo "models/recipes/base-$1.toml"; }
mkdir -p "$work"

realm ingest --source vital --name vital --output "$work/corpora"
vital=$(echo "$work"/corpora/vital/*/)
realm ingest --source jsonl --path "$leads" --name leads --output "$work/corpora" --licence "CC BY-SA 3.0"
articles=$(echo "$work"/corpora/leads/*/)
realm index --model models/realm-mini --corpus "$vital" --output "$work/indexes" --generation vital
realm index --model models/realm-mini --corpus "$articles" --output "$work/indexes" --generation leads
not_learnt=(--without models/questions/*-dev.jsonl models/questions/plain-test.jsonl "$questions"/measured/*.jsonl
  --exclude-titles models/questions/held-out-titles.json)

# A first reader.
[ -d "$work/warm" ] || realm warmstart --corpus "$vital" --set dimension=256 --set 'reader_base="all_mpnet_base_v2"' \
  --output "$work/warm"
[ -e "$work/rows.jsonl" ] || realm mine --model models/realm-mini --index "$work/indexes/vital" --corpus "$vital" \
  --questions "$questions"/{squad1-train-rc,squad-38-articles,qed-nqtrain-rc,hotpotqa-rpt-rc}.jsonl \
  "$questions"/{webquestions-train,curatedtrec-train}.jsonl models/questions/plain-train.jsonl \
  "${not_learnt[@]}" --config "$(settings first-rows)" --output "$work/rows.jsonl"
[ -d "$work/first" ] || realm train-reader --model "$work/warm" --rows "$work/rows.jsonl" \
  --config "$(settings first)" --run "$work/run-first" --output "$work/first"
[ -d "$work/combined" ] || realm combine --retriever models/realm-mini --reader "$work/first" --output "$work/combined"

# A second pass: over passages, over what people ask, and over what the first reader agrees to in retrieved blocks.
mine() { # NAME MODEL'S-INDEX CORPUS, then files
  local name=$1 index=$2 corpus=$3
  shift 3
  [ -e "$work/$name.jsonl" ] || realm mine --model "$work/combined" --index "$index" --corpus "$corpus" --questions "$@" \
    "${not_learnt[@]}" --config "$(settings "$name")" --output "$work/$name.jsonl"
}
mine passages "$work/indexes/vital" "$vital" \
  "$questions"/{squad1-train-rc,squad-38-articles,qed-nqtrain-rc,hotpotqa-rpt-rc}.jsonl
mine people "$work/indexes/vital" "$vital" models/questions/{people-train,plain-train}.jsonl \
  --unanswerable models/questions/people-none-train.jsonl
mine agreed "$work/indexes/leads" "$articles" "$questions"/{webquestions-train,curatedtrec-train,nq-open-train-slice}.jsonl \
  "$questions"/{ambignq-train,triviaqa-dev,squad1-train-qa-only,entityquestions-train}.jsonl
[ -d "$work/read" ] || realm train-reader --model "$work/combined" --rows "$work"/{people,agreed,passages}.jsonl \
  --config "$(settings second)" --run "$work/run-second" --output "$work/read"

[ -d "$work/packed" ] || realm pack --model "$work/read" --name realm-base --output "$work/packed" --query delta4 \
  --reader delta4 --normalisation block+null
[ -d "$work/realm-base" ] || realm calibrate --model "$work/packed" --index "$work/indexes/vital" --corpus "$vital" \
  --questions models/questions/{examiner-plain,examiner-casual,stranger,attributes,casual,plain}-dev.jsonl \
  --unanswerable models/questions/{examiner-none,unanswerable}-dev.jsonl --allowed 0.06 --output "$work/realm-base"
