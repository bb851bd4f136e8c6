"""Several web processes count one asker's questions together, in a real Valkey, and at the same instant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker
from workers.services import environment_for

LIMIT = 40
# A process of a web server, as far as counting goes: questions until one is refused.
COUNTING = """
import django
django.setup()
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from webapp.access import limits

request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1")
request.user = AnonymousUser()
print("ready", flush=True)
input()
allowances = [limits.count(request) for _ in range(LIMIT)]
assert all(allowances), "the cache is out of reach"
print(sum(one.granted for one in allowances))
"""


@pytest.mark.parametrize("at_a_port", [False, True])
def test_processes_share_one_limit(broker_data: Path, port_broker: Broker, at_a_port: bool) -> None:
    urls = port_broker.urls if at_a_port else {"CACHE_URL": "", "BROKER_URL": ""}
    environment, _ = environment_for(broker_data, os.environ | urls)
    environment |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "ASK_RATE": f"{LIMIT}/day"}
    command = [sys.executable, "-c", COUNTING.replace("LIMIT", str(LIMIT))]
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:  # both have begun: now count
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    granted = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(granted) == LIMIT
