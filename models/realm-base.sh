#!/usr/bin/env bash
# Make models/realm-base anew: models/realm-base.sh QUESTIONS LEADS BEGINNINGS WORK
#   QUESTIONS  folder with squad1-train-rc, squad1-train-qa-only, squad-38-articles, qed-nqtrain-rc, hotpotqa-rpt-rc,
#              webquestions-train, curatedtrec-train, nq-open-train-slice, ambignq-train, triviaqa-dev,
#              freebaseqa-dev-eval, mintaka-dev, ambignq-train-disambig, entityquestions-train and entityquestions-dev
#              (.jsonl; see models/realm-base/README.md for where they come from), and in a folder
#              measured/ the question files to leave questions out of
#   LEADS      JSON lines of the first 300 words of Wikipedia articles (docs/results.md makes them)
#   BEGINNINGS the same of the first 1,000 words
#   WORK       folder for everything on the way (about 6 GB); run again, it goes on where it stopped
# Five hours on two cores with bfloat16 instructions, and five minutes on a GPU. The retriever is realm-mini's; the reader
# alone is trained.
set -euo pipefail
questions=$1 leads=$2 beginnings=$3 work=$4
realm() { python -m realm_core "$@"; }
settings() { echo "models/recipes/base-$1.toml"; }
mkdir -p "$work"

realm ingest --source vital --name vital --output "$work/corpora"
vital=$(echo "$work"/corpora/vital/*/)
realm ingest --source jsonl --path "$leads" --name leads --output "$work/corpora" --licence "CC BY-SA 3.0"
articles=$(echo "$work"/corpora/leads/*/)
realm index --model models/realm-mini --corpus "$vital" --output "$work/indexes" --generation vital
realm ingest --source default --name default --output "$work/corpora" # what people ask, and so what is calibrated on
default=$(echo "$work"/corpora/default/*/)
realm index --model models/realm-mini --corpus "$default" --output "$work/indexes" --generation default
realm index --model models/realm-mini --corpus "$articles" --output "$work/indexes" --generation leads
draw() { # COUNT, PATTERN, files: lines of the files that match, chosen at random but always the same
  local count=$1 pattern=$2
  shift 2
  grep -h "$pattern" "$@" | shuf -n "$count" --random-source=<(yes)
}
mkdir -p "$work/open-dev" # open questions that are not trained on, for temperatures and confidence
for set in nq-open-train-slice:150 ambignq-train:100 triviaqa-dev:120 entityquestions-dev:120 \
  webquestions-train:250 curatedtrec-train:150; do
  [ -e "$work/open-dev/${set%:*}-unseen.jsonl" ] || draw "${set#*:}" . "$questions/${set%:*}.jsonl" > "$work/open-dev/${set%:*}-unseen.jsonl"
done
not_learnt=(--without "$work"/open-dev/*.jsonl models/questions/*-dev.jsonl models/questions/plain-test.jsonl "$questions"/measured/*.jsonl
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

# Two more passes, of low rank: an adapter beside the packed weights. Open questions over the first 1,000 words of articles.
realm ingest --source jsonl --path "$beginnings" --name beginnings --output "$work/corpora" --licence "CC BY-SA 3.0"
begun=$(echo "$work"/corpora/beginnings/*/)
realm index --model models/realm-mini --corpus "$begun" --output "$work/indexes" --generation beginnings
mine_open() { # NAME, then files and options
  local name=$1
  shift
  [ -e "$work/$name.jsonl" ] || realm mine --model models/realm-mini --index "$work/indexes/beginnings" --corpus "$begun" \
    --questions "$@" --config "$(settings "$name")" --output "$work/$name.jsonl"
}
open=("$questions"/{nq-open-train-slice,ambignq-train,triviaqa-dev,freebaseqa-dev-eval,mintaka-dev,squad1-train-qa-only}.jsonl)
mine_open open "$questions"/{webquestions,curatedtrec}-train.jsonl "${open[@]}" "${not_learnt[@]}"
mine passages-more "$work/indexes/vital" "$vital" "$questions"/{squad1-train-rc,squad-38-articles,qed-nqtrain-rc}.jsonl
mine people-more "$work/indexes/vital" "$vital" models/questions/people{,-more}-train.jsonl \
  --unanswerable models/questions/people{,-more}-none-train.jsonl
holds='"answers": \["' lacks='"answers": \[\]'
open_rows=("$work/open.jsonl") passages=("$work/passages-more.jsonl") people=("$work/people-more.jsonl")
{ grep -h "$holds" "${open_rows[@]}"; draw 4500 "$lacks" "${open_rows[@]}"; draw 6500 . "${passages[@]}"
  draw 4500 . "${people[@]}"; } > "$work/rows-third.jsonl"
{ draw 7000 . "${passages[@]}"; draw 3000 . "${people[@]}"; draw 1000 "$lacks" "${open_rows[@]}"; } > "$work/rows-fourth.jsonl"
pass() { # NAME FROM
  [ -d "$work/$1" ] || realm train-reader --model "$work/$2" --rows "$work/rows-$1.jsonl" --config "$(settings "$1")" \
    --run "$work/run-$1" --output "$work/$1"
}
pass third packed
pass fourth third

# A fifth pass, for which a GPU is needed: the ten best blocks of each question together, answers sought by all of them.
mine_together() { # NAME, SETTINGS, INDEX, CORPUS, then files and options
  local name=$1 own=$2 index=$3 corpus=$4
  shift 4
  [ -e "$work/$name.jsonl" ] || realm mine --model models/realm-mini --index "$work/indexes/$index" --corpus "$corpus" \
    --questions "$@" "${not_learnt[@]}" --config "$(settings "$own")" --output "$work/$name.jsonl"
}
mine_together asked asked beginnings "$begun" "$questions"/{curatedtrec,webquestions}-train.jsonl
mine_together asked-rest asked beginnings "$begun" \
  "$questions"/{nq-open-train-slice,triviaqa-dev,freebaseqa-dev-eval,mintaka-dev}.jsonl
mine_together asked-more asked-more beginnings "$begun" "$questions"/{ambignq-train,ambignq-train-disambig}.jsonl \
  "$questions"/{squad1-train-qa-only,squad1-train-rc,entityquestions-train,qed-nqtrain-rc}.jsonl
mine_together asked-people asked-people vital "$vital" models/questions/{people,people-more,plain}-train.jsonl \
  --unanswerable models/questions/people{,-more}-none-train.jsonl
[ -d "$work/fifth" ] || realm train-reader --model "$work/fourth" --config "$(settings fifth)" --run "$work/run-fifth" \
  --rows "$work"/asked{,,}.jsonl "$work"/asked-{rest,more,people}.jsonl --output "$work/fifth"

# The fifth reads more answers out of open questions, and writes shorter ones; three fifths of its change keep both.
[ -d "$work/mixed" ] || realm combine --retriever "$work/fourth" --reader "$work/fourth" "$work/fifth" --shares 0.4 0.6 \
  --rank 32 --output "$work/mixed"
# Its retriever is that of realm-mini as it is in the end (`models/realm-mini.sh`).
[ -d "$work/finding" ] || realm combine --retriever models/realm-mini --reader "$work/mixed" --output "$work/finding"
# What holds elsewhere was set a little differently in the model that ships, see its README.md.
[ -d "$work/realm-base" ] || realm calibrate --model "$work/finding" --index "$work/indexes/default" --corpus "$default" \
  --questions models/questions/{examiner-plain,examiner-casual,stranger,attributes,casual,plain}-dev.jsonl \
  --unanswerable models/questions/{examiner-none,unanswerable}-dev.jsonl --allowed 0.06 --lexical-weight 0.1 \
  --other-index "$work/indexes/leads" --other-corpus "$articles" --other-questions "$work"/open-dev/*.jsonl \
  --output "$work/realm-base"
