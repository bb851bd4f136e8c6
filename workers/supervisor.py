"""`make run`, after the installation: prepare the data, start the programs, keep them running.

    broker → migrate → setup_data → web, worker, fetcher, scheduler → "Ready" when /readyz answers 200

No library was found that does all of this: honcho ends everything when one program ends, supervisord leaves its
programs running when it is killed, and neither knows when the whole is ready. Every program has its own session, so
Ctrl-C reaches only the supervisor, which ends them in order: those that use the broker first. If the supervisor is
killed, the kernel kills them too (realm_core/runs/launch.py). Exit status: 0 if it was stopped, 1 if it could not
start.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from realm_core.runs.kept import KeptProcess
from realm_core.runs.processes import awaited, describe_end, start
from workers.guards import HOST, check_port, check_room_for_data, chosen_port, data_folder, data_lock
from workers.refusal import TOP, Refusal
from workers.services import Service, application, broker, environment_for, socket_path

# The preparations, each with its management command.
PREPARATIONS: tuple[tuple[str, ...], ...] = (
    ("the database", "migrate", "--no-input", "--verbosity=0"),
    # It writes to a pipe; only the supervisor knows whether its own output is a terminal.
    ("the data", "setup_data", *(["--show-password"] if sys.stdout.isatty() else [])),
)
_LOOK_EVERY_S = 0.2
_BROKER_TIMEOUT_S = 10.0
_DEATHS_BEFORE_READY = 3  # after so many, starting is considered impossible
_STILL_LOADING_EVERY_S = 15.0
_LIMIT_LOGS_EVERY_S = 60.0
_PREPARE_GRACE_S = 10.0
# Within it a second signal is the first one once more: where SIGTERM is sent to a whole group, `make` passes it on to
# those who have got it already.
_SAME_REQUEST_S = 1.0
_ACCOUNT = "Administrator account: "  # start of setup_data's line that is repeated at the end


class StopRequested(Exception):
    """Ctrl-C or SIGTERM."""


class Supervisor:
    """All programs of one data folder."""

    def __init__(self, data: Path, port: int) -> None:
        self._data = data
        self._port = port
        self._logs = data / "logs"
        self._logs.mkdir(exist_ok=True)
        self._environment, self._embedded_broker = environment_for(data, os.environ)
        self._broker: KeptProcess | None = None
        self._children: list[KeptProcess] = []
        self._account = ""  # line about a new administrator, until it has been printed
        self._stop = threading.Event()
        self._asked_at = math.inf
        self._impatient = False  # asked a second time

    def listen_to_signals(self) -> None:
        def request(_number: int, _frame: FrameType | None) -> None:
            now = time.monotonic()
            if not self._stop.is_set():
                self._asked_at = now
                self._stop.set()
            elif now - self._asked_at > _SAME_REQUEST_S:
                self._impatient = True

        signal.signal(signal.SIGINT, request)
        signal.signal(signal.SIGTERM, request)
        signal.signal(signal.SIGHUP, request)

    def run(self) -> None:
        """Prepare, start and watch until it is stopped; then end everything."""
        try:
            if self._embedded_broker:
                self._start_broker()
            for what, *command in PREPARATIONS:
                self._prepare(what, *command)
            self._children = [self._kept(service) for service in application(self._port)]
            say("Starting the web server, the workers and the scheduler; the model is being loaded")
            for child in self._children:
                child.start()
            self._watch()
        except StopRequested:
            pass
        finally:
            self._end_all()

    def _kept(self, service: Service) -> KeptProcess:
        log = self._logs / f"{service.name}.log"
        environment = {**self._environment, **service.environment}
        return KeptProcess(service.name, service.command, log, environment, folder=TOP, grace_s=service.grace_s)

    # ---- before the programs run

    def _start_broker(self) -> None:
        """Start the embedded broker; if its message file is damaged, start with a new one, because jobs are rows."""
        self._broker = self._kept(broker(self._data))
        self._broker.start()
        if self._broker_answers():
            return
        self._broker.kill()
        folder = self._data / "valkey"
        aside = self._data / "valkey.damaged"
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        folder.mkdir()
        say(f"The broker could not read its messages; they were put aside in {aside}. No job is lost by that.")
        self._broker.start()
        if not self._broker_answers():
            raise Refusal(f"The broker does not start: {self._broker.last_words()} Its log is {self._broker.log}")

    def _broker_answers(self) -> bool:
        deadline = time.monotonic() + _BROKER_TIMEOUT_S
        while time.monotonic() < deadline:
            self._pause(0.05)
            if self._broker is None or self._broker.look() is not None:
                return False
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(1)
                try:
                    connection.connect(str(socket_path(self._data)))
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return True
                except OSError:
                    continue
        return False

    def _prepare(self, what: str, *command: str) -> None:
        """Run a management command with its own output; `Refusal` if it fails."""
        say(f"Preparing {what}")
        process = start(
            [sys.executable, "manage.py", *command],
            output=subprocess.PIPE,
            with_errors=False,
            environment=self._environment,
            folder=TOP,
        )
        reader = threading.Thread(target=self._pass_on, args=(process,))
        reader.start()
        try:
            with awaited(process, _PREPARE_GRACE_S, lambda: self._impatient):
                while process.poll() is None:
                    self._pause(0.05)
        finally:
            reader.join()
        if process.returncode != 0:
            raise Refusal(
                f"Preparing {what} (manage.py {command[0]}) ended {describe_end(process.returncode)}; "
                "the reason is above. Running this again resumes from here."
            )

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """Print a command's output, but keep the line about a new account for the end."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text.startswith(_ACCOUNT):
                    self._account = text
                else:
                    say(text)

    # ---- while they run

    def _watch(self) -> None:
        """Restart programs that die, and report once when all is ready."""
        began_at = spoke_at = limited_at = time.monotonic()
        ready = False
        while True:
            self._pause(_LOOK_EVERY_S)
            limits_logs = time.monotonic() - limited_at > _LIMIT_LOGS_EVERY_S
            if limits_logs:
                limited_at = time.monotonic()
            for child in [*([self._broker] if self._broker else []), *self._children]:
                death = child.look()
                if death is not None:
                    self._report(child, death, ready)
                if limits_logs:
                    child.limit_log()
            if ready:
                continue
            ready, reason = self._readiness()
            now = time.monotonic()
            if ready:
                account = f" · {self._account}" if self._account else ""
                say(f"Ready: open http://{HOST}:{self._port}/{account} · Ctrl-C stops everything")
                self._account = ""
            elif now - spoke_at > _STILL_LOADING_EVERY_S:
                spoke_at = now
                say(f"Not ready after {now - began_at:.0f} s: {reason} The web server's log is {self._children[0].log}")

    def _report(self, child: KeptProcess, death: str, ready: bool) -> None:
        if not ready and child.deaths >= _DEATHS_BEFORE_READY:
            raise Refusal(
                f"The {child.name} process {death}, {child.deaths} times in a row. Its last words: "
                f"{child.last_words()} Its log is {child.log}"
            )
        again = f"it starts again in {child.pause_s:.0f} s"
        say(f"The {child.name} process {death}; {again}. Its log is {child.log}")

    def _readiness(self) -> tuple[bool, str]:
        """Whether /readyz answers 200, and if not, why."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return False, "The web server does not answer yet."
        finally:
            connection.close()
        try:
            reason = str(json.loads(body).get("reason", ""))
        except (ValueError, AttributeError):
            reason = ""
        return response.status == 200, reason or f"/readyz answers {response.status}."

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise StopRequested

    # ---- the end

    def _end_all(self) -> None:
        """SIGTERM to all that use the broker, and to the broker after they have ended."""
        if self._account:
            say(self._account)  # the run ends before it was ready; the password is printed only once
        if self._stop.is_set():
            say("\nStopping")
        for children in (self._children, [self._broker] if self._broker else []):
            for child in children:
                child.ask_to_end()
            asked_at = time.monotonic()
            for child in children:
                child.end(asked_at, lambda: self._impatient)


def say(message: str) -> None:
    """Print a message for the person who started it."""
    print(message, flush=True)


def main() -> int:
    try:
        data, port = data_folder(), chosen_port()
        with data_lock(data):
            check_port(port)
            check_room_for_data(data)
            supervisor = Supervisor(data, port)
            supervisor.listen_to_signals()
            supervisor.run()
    except Refusal as refusal:
        print(f"\nerror: {refusal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
