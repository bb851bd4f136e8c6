"""Every reader, given files made to hurt it, refuses them in a sentence or reads them; nothing else happens."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.damage import hostile
from tests.fuzz.seeds import Scene
from tests.fuzz.targets import Target, targets

EXAMPLES = 15  # of each reader; `python -m tests.fuzz` tries millions


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return targets(Scene.make(tmp_path_factory.mktemp("fuzz")))


def test_valid_files_are_read(readers: dict[str, Target]) -> None:
    """Else a reader that refuses everything would look as good as any; of a release, most weights are left out."""
    refused = [name for name, one in readers.items() for seed in one.seeds if not one.survives(seed)]
    assert refused == ["released"]


def test_hostile_files_are_refused_or_read(readers: dict[str, Target]) -> None:
    for files in _drawn(readers):
        for name, content in files.items():
            readers[name].survives(content)


def _drawn(readers: dict[str, Target]) -> list[dict[str, bytes]]:
    """A file for each reader, `EXAMPLES` times. Always the same files: new ones are for `python -m tests.fuzz`, which
    no change waits for. All are drawn before the first is read, as reading imports modules and Hypothesis, which draws
    constants of the modules that it finds, would call that flaky."""
    drawn: list[dict[str, bytes]] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        drawn.append({name: data.draw(hostile(one.seeds, one.kind), label=name) for name, one in readers.items()})

    draw()
    return drawn
