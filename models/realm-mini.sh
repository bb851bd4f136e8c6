#!/usr/bin/env bash
# Make models/realm-mini anew: models/realm-mini.sh QUESTIONS ENWIKI WORK
#   QUESTIONS  folder with curatedtrec-train, webquestions-train, nq-open-train-slice, triviaqa-dev and
#              squad-38-articles (.jsonl; see models/realm-mini/README.md for where they come from)
#   ENWIKI     whole articles as JSON lines (id, title, text), .xz: English Wikipedia of May 2015, oldest page ids
#   WORK       folder for everything on the way (about 1 GB); run again, it goes on where it stopped
# Two hours on two cores with bfloat16 instructions.
set -euo pipefail
questions=$1 enwiki=$2 work=$3
realm() { python -m realm_core "$@"; }
mkdir -p "$work"

realm ingest --source vital --name vital --output "$work/corpora"
vital=$(echo "$work"/corpora/vital/*/)

# Leads of the articles, cut into passages about as long as the default corpus's: more text, and more of it about
# what the questions ask, than the default corpus has.
if [ ! -e "$work/passages.jsonl" ]; then
  python - "$enwiki" "$work/passages.jsonl" <<'CUT'
import json, lzma, os, sys
from realm_core.text.sentences import sentence_spans

with lzma.open(sys.argv[1], "rt") as articles, open(sys.argv[2] + ".tmp", "w") as passages:
    for line in articles:
        article = json.loads(line)
        text = article["text"][:2200]
        last = text.rfind(". ")
        if len(article["text"]) > 2200 and last > 500:
            text = text[: last + 1]
        first, end, number = None, 0, 0
        spans = list(sentence_spans(text)) if text.strip() else []
        for position, (start, stop) in enumerate(spans):
            if first is not None and stop - first > 700:
                print(json.dumps({"id": f"{article['id']}-{number}", "title": article["title"],
                                  "text": text[first:end]}), file=passages)
                first, number = None, number + 1
            first, end = start if first is None else first, stop
        if first is not None:
            print(json.dumps({"id": f"{article['id']}-{number}", "title": article["title"],
                              "text": text[first:end]}), file=passages)
os.replace(sys.argv[2] + ".tmp", sys.argv[2])
CUT
fi
realm ingest --source jsonl --path "$work/passages.jsonl" --name enwiki2015 --output "$work/corpora"
passages=$(echo "$work"/corpora/enwiki2015/*/)

[ -d "$work/warm" ] || realm warmstart --corpus "$vital" --dimension 256 --output "$work/warm"
realm index --model "$work/warm" --corpus "$vital" --output "$work/indexes" --generation warm

sets=("$questions"/{curatedtrec-train,webquestions-train,nq-open-train-slice,triviaqa-dev}.jsonl)
held=models/questions/held-out-titles.json
[ -e "$work/rows-vital.jsonl" ] || realm mine --questions "${sets[@]}" models/questions/plain-train.jsonl \
  "$questions/squad-38-articles.jsonl" --corpus "$vital" --model "$work/warm" --index "$work/indexes/warm" \
  --exclude-titles "$held" --output "$work/rows-vital.jsonl"
[ -e "$work/rows-passages.jsonl" ] || realm mine --questions "${sets[@]}" --corpus "$passages" \
  --exclude-titles "$held" --output "$work/rows-passages.jsonl"

[ -d "$work/tuned" ] || realm finetune --model "$work/warm" --corpus "$vital" --index "$work/indexes/warm" \
  --rows "$work/rows-vital.jsonl" "$work/rows-passages.jsonl" --config models/realm-mini.toml \
  --run "$work/run" --output "$work/tuned"
