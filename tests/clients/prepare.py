"""Makes and fills a server's database: what it answers from, two people and their tokens.

python -m tests.clients.prepare MODEL INDEX CORPUS     prints the tokens as JSON
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402  # needs Django's settings
from django.core.management import call_command  # noqa: E402

from webapp.artefacts.registering import record_corpus, record_index, record_model  # noqa: E402
from webapp.deployments.service import deploy  # noqa: E402
from webapp.models import ApiToken, IndexGeneration  # noqa: E402


def main() -> None:
    model, index, corpus = map(Path, sys.argv[1:])
    call_command("migrate", interactive=False, verbosity=0)
    record_corpus(corpus)
    deployed = record_index(index, model=record_model(model))
    deploy(deployed)
    another = IndexGeneration.objects.get(pk=deployed.pk)  # the same files under another name, to deploy and go back
    another.pk, another.generation = None, "another"
    another.save()
    tokens = {}
    for name, is_staff, scopes in (("asker", False, ["ask", "feedback"]), ("admin", True, ["ask", "operate"])):
        person = User.objects.create_user(name, password=name, is_staff=is_staff)
        tokens[name] = ApiToken.issue(person, "test", scopes)[1]
    print(json.dumps(tokens))


if __name__ == "__main__":
    main()
