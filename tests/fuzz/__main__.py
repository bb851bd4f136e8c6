"""Coverage-guided search for files that hurt a reader: `python -m tests.fuzz NAME|all --seconds S`.

Files that a reader does not survive are kept in a folder, which the end names, with the error; exit status 1 then. The
reader's own modules are instrumented, so that files which reach new lines are the ones that are changed further.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_LARGEST_BYTES = 1 << 16  # of a file that is tried
_MEMORY_MB = 4096  # torch alone takes some hundred
_SLOW_S = 20  # a reader that takes longer over such a file hangs


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="a reader, or all")
    parser.add_argument("--seconds", type=int, default=60, help="for each reader (default 60)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"), help="where files that hurt are kept")
    options = parser.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("error: atheris is missing; run .venv/bin/python -m pip install -c constraints.txt atheris.")
        return 2
    if options.name != "all":
        return _search(options.name, options.seconds, options.keep)
    failed = []
    for name in _names():
        command = [sys.executable, "-m", "tests.fuzz", name, f"--seconds={options.seconds}", f"--keep={options.keep}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        lines = done.stdout.decode(errors="replace").splitlines()
        print(f"{name}: {_summary(lines)}", flush=True)
        if done.returncode:
            failed.append(name)
            print("\n".join(lines[-40:]), flush=True)
    print(f"Not survived: {', '.join(failed)}; the files are in {options.keep}" if failed else "All were survived.")
    return 1 if failed else 0


def _summary(lines: list[str]) -> str:
    """libFuzzer's last count of what it tried."""
    return next((line for line in reversed(lines) if line.startswith(("Done ", "#"))), "nothing was tried")


def _names() -> list[str]:
    _prepare_django()
    from tests.fuzz.seeds import Scene
    from tests.fuzz.targets import targets

    with tempfile.TemporaryDirectory(prefix="realm-fuzz-") as folder:
        return list(targets(Scene.make(Path(folder))))


def _prepare_django() -> None:
    """The archive of a backup is read by a service of the web application."""
    import django

    os.environ.setdefault("REALM_DATA", tempfile.mkdtemp(prefix="realm-fuzz-data-"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    django.setup()


def _search(name: str, seconds: int, keep: Path) -> int:
    import atheris
    import torch

    torch.set_num_threads(1)
    with atheris.instrument_imports(include=["realm_core", "webapp.operations.backups"]):
        _prepare_django()
        import webapp.operations.backups  # noqa: F401, a reader is imported late otherwise
        from tests.fuzz.seeds import Scene
        from tests.fuzz.targets import targets
    with tempfile.TemporaryDirectory(prefix="realm-fuzz-") as folder:
        known = targets(Scene.make(Path(folder, "scene")))
        if name not in known:
            print(f"error: there is no reader {name}; there are {', '.join(known)}.")
            return 2
        target, corpus = known[name], Path(folder, "corpus")
        corpus.mkdir()
        for number, seed in enumerate(target.seeds):
            (corpus / str(number)).write_bytes(seed)
        keep.mkdir(parents=True, exist_ok=True)
        limits = {
            "max_total_time": seconds,
            "max_len": max(_LARGEST_BYTES, *map(len, target.seeds)),
            "rss_limit_mb": _MEMORY_MB,
            "timeout": _SLOW_S,
            "artifact_prefix": f"{keep}/{name}-",
            "print_final_stats": 1,
        }
        flags = [f"-{key}={value}" for key, value in limits.items()]

        def one_input(content: bytes) -> None:
            target.survives(content)

        atheris.Setup([sys.argv[0], *flags, str(corpus)], one_input)
        atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main())
