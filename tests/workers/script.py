"""What the tests' jobs run: steps that take time, counted in a file so that the next attempt goes on.

Every step appends "PID STEP" to steps.txt. A lock that it holds while it runs would show a second process.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from realm_core.errors import Stopped
from realm_core.runs.activity import Activity


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--step_s", type=float, default=0.1)
    parser.add_argument("--fail", default="")
    parser.add_argument("--deaf", type=int, default=0, help="Do not listen to SIGTERM.")
    parser.add_argument("--die", type=int, default=0, help="Be killed at this step, every time.")
    parser.add_argument("--helper", type=int, default=0, help="Start a process that sleeps.")
    options = parser.parse_args()
    (options.run / "devices.txt").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    activity = Activity(options.run)
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        activity.stop_on_signals()
    alone = open(options.run / "alone", "w")  # noqa: SIM115 - held until the process ends
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (options.run / "two-at-once").touch()
    if options.helper:
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        (options.run / "helper").write_text(str(helper.pid))
    if options.fail:
        print(f"error: {options.fail}", file=sys.stderr)
        return 2
    steps = options.run / "steps.txt"
    done = len(steps.read_text().splitlines()) if steps.exists() else 0
    try:
        for step in range(done, options.steps):
            activity.check()
            if (options.run / "fail").exists():  # told while it runs
                print(f"error: {(options.run / 'fail').read_text()}", file=sys.stderr)
                return 2
            if options.die and step == options.die:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(options.step_s)
            with open(steps, "a") as file:
                file.write(f"{os.getpid()} {step}\n")
            activity.metrics(step, loss=1 / (step + 1), nothing=float("nan"))
            activity.progress(step + 1, options.steps, "steps")
    except Stopped:
        return 3
    activity.result({"steps": options.steps})
    return 0


if __name__ == "__main__":
    sys.exit(main())
