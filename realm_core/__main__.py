"""`python -m realm_core ACTIVITY …`: each is a module with `add_arguments(parser)` and `main(arguments, activity)`.

Exit status: 0 done, 1 `selfcheck` found something wrong, 2 a `RealmError` (its sentence on stderr), 3 stopped by a
signal.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError, Stopped
from realm_core.runs.activity import Activity

ACTIVITIES = {
    "ingest": ("realm_core.corpus.ingest", "read a source and publish a corpus snapshot"),
    "warmstart": ("realm_core.training.warmstart", "make a first model from a sentence encoder's weights"),
    "import": ("realm_core.model.released", "make a model of weights as REALM was released"),
    "index": ("realm_core.index.build", "embed every block of a snapshot and publish an index generation"),
    "spans": ("realm_core.salient.extract", "find the names and dates of a corpus that pre-training masks"),
    "ict": ("realm_core.training.ict", "warm up the embedder: which block did this sentence come from?"),
    "mlm": ("realm_core.training.mlm", "warm up the encoder: fill masks without retrieval"),
    "pretrain": ("realm_core.training.pretrain", "pre-train retriever and encoder: fill masks with what is retrieved"),
    "refresh": ("realm_core.training.refresh", "rebuild the index of a running pre-training, again and again"),
    "questions": ("realm_core.questions.formats", "turn a published question set into a question file"),
    "mine": ("realm_core.training.mine", "set questions against blocks: what the reader learns from"),
    "train-reader": ("realm_core.training.train_reader", "train the reader on questions set against one block each"),
    "finetune": ("realm_core.training.finetune", "train retriever and reader from questions with answers"),
    "evaluate": ("realm_core.evaluation.evaluate", "measure exact match and recall on a question file"),
    "ablate": ("realm_core.training.ablate", "the paper's ablations on any corpus: train and measure each, in a table"),
    "calibrate": ("realm_core.evaluation.calibrate", "fit temperatures, threshold and confidence on questions"),
    "compare": ("realm_core.evaluation.compare", "tables of several evaluations, with significance"),
    "curves": ("realm_core.evaluation.curves", "draw what trainings measured, step by step"),
    "combine": ("realm_core.model.combine", "the retriever of one model with the encoder of another"),
    "pack": ("realm_core.model.pack", "store a model small: what changed, in float16 or int8"),
    "ask": ("realm_core.serving.asking", "answer one question on the command line"),
    "fill": (
        "realm_core.serving.filling",
        "fill the masks of one sentence: without retrieval, from blocks, and marginal",
    ),
    "selfcheck": ("realm_core.selfcheck.command", "is this machine's arithmetic right, and how fast is it?"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one activity; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m realm_core", description=__doc__.split("\n")[0])
    parsers = parser.add_subparsers(dest="activity", required=True, metavar="ACTIVITY")
    for name, (place, summary) in ACTIVITIES.items():
        sub = parsers.add_parser(name, help=summary, description=summary)
        if argv[:1] == [name]:  # the other activities' modules are not even imported
            importlib.import_module(place).add_arguments(sub)
            sub.add_argument("--run", type=Path, help="folder for progress.json, metrics.jsonl and result.json")
            sub.add_argument("--quiet", action="store_true", help="print nothing but errors")
            sub.add_argument(
                "--with-parent", type=int, metavar="PID", help="stop when this process, the parent, is gone"
            )
    arguments = parser.parse_args(argv)
    module = importlib.import_module(ACTIVITIES[arguments.activity][0])
    try:
        activity = Activity(arguments.run, quiet=arguments.quiet, with_parent=arguments.with_parent)
        activity.stop_on_signals()
        module.main(arguments, activity)
    except RealmError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except (Stopped, KeyboardInterrupt):
        print("Stopped; what was finished is kept.", file=sys.stderr)
        return EXIT_STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has gone
    except OSError as error:  # of a path that nobody thought of: a file in the place of a folder, one without rights
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}.", file=sys.stderr)
        return EXIT_REFUSED
    return 0


def end(status: int) -> NoReturn:
    """End this process with an exit status.

    Under torchrun C++'s own destructors are left out: those of gloo's threads abort the process now and then, with its
    work done, and torchrun then takes the whole training for failed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    end(main())
