"""Several web processes count one asker's questions together, in a real Valkey, and at the same instant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.core.processes import start
from tests.waiting import wait_until
from workers.services import environment_for

LIMIT = 40
# A process of a web server, as far as counting goes: questions until one is refused.
COUNTING = """
import sys
import time
from pathlib import Path
import django
django.setup()
from django.contrib.auth.models import AnonymousUser
from django.test import RequestFactory
from webapp.access import limits

request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1")
request.user = AnonymousUser()
Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():
    time.sleep(0.001)
allowances = [limits.count(request) for _ in range(LIMIT)]
assert all(allowances), "the cache is out of reach"
print(sum(one.granted for one in allowances))
"""


@pytest.mark.parametrize("at_a_port", [False, True])
def test_processes_share_one_limit(broker_data: Path, port_broker: Broker, at_a_port: bool, tmp_path: Path) -> None:
    urls = port_broker.urls if at_a_port else {"CACHE_URL": "", "BROKER_URL": ""}
    environment, _ = environment_for(broker_data, os.environ | urls)
    environment |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "ASK_RATE": f"{LIMIT}/day"}
    ready, go = [tmp_path / "first", tmp_path / "second"], tmp_path / "go"
    processes = [start([str(one), str(go)], COUNTING.replace("LIMIT", str(LIMIT)), **environment) for one in ready]
    for one, process in zip(ready, processes, strict=True):
        wait_until(one.exists, process)
    go.touch()  # both have begun: now count
    granted = [int(process.communicate()[0]) for process in processes]
    assert sum(granted) == LIMIT
