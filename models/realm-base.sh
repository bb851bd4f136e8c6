#!/usr/bin/env bash
# Make models/realm-base anew: models/realm-base.sh QUESTIONS WORK
#   QUESTIONS  folder with squad1-train-rc, squad-38-articles, qed-nqtrain-rc, hotpotqa-rpt-rc, webquestions-train and
#              curatedtrec-train (.jsonl; see models/realm-base/README.md for where they come from), and in a folder
#              measured/ the question files to leave questions out of
#   WORK       folder for everything on the way (about 4 GB); run again, it goes on where it stopped
# About an hour on two cores with bfloat16 instructions. The retriever is realm-mini's; the reader alone is trained.
set -euo pipefail
questions=$1 work=$2
realm() { python -m realm_core "$@"; }
mkdir -p "$work"

realm ingest --source vital --name vital --output "$work/corpora"
vital=$(echo "$work"/corpora/vital/*/)

[ -d "$work/warm" ] || realm warmstart --corpus "$vital" --set dimension=256 --set 'reader_base="all_mpnet_base_v2"' \
  --output "$work/warm"
[ -e "$work/rows.jsonl" ] || realm mine --model models/realm-mini --index models/realm-mini/vectors --corpus "$vital" \
  --questions "$questions"/{squad1-train-rc,squad-38-articles,qed-nqtrain-rc,hotpotqa-rpt-rc}.jsonl \
  "$questions"/{webquestions-train,curatedtrec-train}.jsonl models/questions/plain-train.jsonl \
  --without models/questions/{plain-dev,plain-test}.jsonl "$questions"/measured/*.jsonl \
  --exclude-titles models/questions/held-out-titles.json --config models/realm-base-rows.toml --output "$work/rows.jsonl"
[ -d "$work/read" ] || realm train-reader --model "$work/warm" --rows "$work/rows.jsonl" \
  --config models/realm-base.toml --run "$work/run" --output "$work/read"
[ -d "$work/combined" ] || realm combine --retriever models/realm-mini --reader "$work/read" --output "$work/combined"
[ -d "$work/packed" ] || realm pack --model "$work/combined" --name realm-base --output "$work/packed" --query delta4 \
  --reader delta4 --normalisation block+null
[ -d "$work/realm-base" ] || realm calibrate --model "$work/packed" --index models/realm-base/vectors --corpus "$vital" \
  --questions models/questions/{stranger,attributes,casual,plain}-dev.jsonl \
  --unanswerable models/questions/unanswerable-dev.jsonl --output "$work/realm-base"
