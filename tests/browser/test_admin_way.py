"""The administrator's way (admin_way.py) over a dozen articles, with a real web server, worker and job processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import global_settings
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from benchmarks.web import server
from realm_core.serving.engine import Engine
from tests import forked
from tests.browser.admin_way import Ground, Way
from tests.tiny import QUESTIONS, tiny_deployment
from tests.workers.conftest import Workers
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.deployments.service import deploy
from webapp.models import Purpose
from webapp.questions import service as questions

pytestmark = pytest.mark.postgresql_only  # which has writers wait for one another less than SQLite has

PASSWORD = "a-password-of-the-test"


@pytest.fixture
def ground(transactional_db: None, tmp_path: Path, settings: Any) -> Ground:
    """A tiny deployment, with what its model answers when nobody serves it."""
    model, index, corpus = tiny_deployment(tmp_path)
    engine = Engine.load(model, index, corpus, device="cpu")
    answers = {question: engine.ask(question).answers[0].text for question in QUESTIONS[:2]}
    engine.close()
    blocks = record_corpus(corpus).blocks
    deploy(record_index(index, model=record_model(model)))
    asked = [{"question": question, "answers": ["1968"]} for question in QUESTIONS]
    questions.record("".join(json.dumps(one) + "\n" for one in asked).encode(), "tiny", Purpose.MEASURE)
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS  # the web server knows no others
    User.objects.create_superuser("admin", password=PASSWORD)
    return Ground(blocks, -(-blocks // 2), "tiny", 8, answers)


@pytest.mark.timeout(600)
def test_build_evaluate_deploy_ask_and_roll_back(ground: Ground, workers: Workers, tmp_path: Path, page: Page) -> None:
    workers.worker(forks="1")
    environment = {**os.environ, **workers.environment, "REALM_DEVICE": "cpu"}
    with server(environment, tmp_path / "web.log", forked.start) as (_, port):
        expect.set_options(timeout=60_000)
        Way(page, f"http://127.0.0.1:{port}", PASSWORD, ground).walk()
