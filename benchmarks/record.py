"""Record the folders of a model, a corpus and an index in the database of REALM_DATA, and deploy them.

python -m benchmarks.record MODEL CORPUS INDEX
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django


def main(model: Path, corpus: Path, index: Path) -> None:
    """Write the rows that make a web process answer from these folders."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    from webapp.artefacts.registering import record_corpus, record_index, record_model
    from webapp.deployments.service import deploy

    record_corpus(corpus)
    deploy(record_index(index, model=record_model(model)), note="benchmark", confirmed=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
