"""Settings from environment variables, strictly parsed: a mistake stops the start with an error message."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, get_args

from django.core.exceptions import ImproperlyConfigured

from realm_core.errors import RealmError
from realm_core.index.choice import MilvusServer, SearchKind, WantedSearch
from realm_core.object_store import DATA_ENV, STORE_ENV, check_settings

TextT = TypeVar("TextT", bound=str)

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)+")
# Headers with a dash that browsers send, or that proxies set for another purpose.
_FROM_CLIENTS = {
    *("accept-encoding", "accept-language", "cache-control", "content-length", "content-type", "if-match"),
    *("if-none-match", "user-agent", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id"),
}
# Commands that read or change records which there must be already.
NEED_RECORDS = frozenset(
    {
        *("ask", "backup", "changepassword", "collections", "create_token", "createsuperuser", "documents", "dumpdata"),
        *("fill_store", "forget_person", "ingest", "register_model", "register_questions", "revoke_token"),
        *("scheduler_alive", "setup_data", "shell", "wikipedia"),
    }
)
_RECORDS = "db.sqlite3"  # in the data folder
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]"}  # this machine, as in ALLOWED_HOSTS


def data_folder() -> Path:
    """REALM_DATA, or var/ in the checkout."""
    return Path(os.environ.get(DATA_ENV) or Path(__file__).resolve().parent.parent / "var").absolute()


def records_url() -> str:
    """DATABASE_URL, or that of SQLite in the data folder."""
    return os.environ.get("DATABASE_URL") or f"sqlite:///{data_folder() / _RECORDS}"


def without_records(arguments: Sequence[str]) -> str:
    """Why a command cannot run, because there are no records yet; else nothing. Nothing is made by looking."""
    name = arguments[0] if arguments else ""
    if name not in NEED_RECORDS or os.environ.get("DATABASE_URL") or {"-h", "--help"} & set(arguments):
        return ""
    path = data_folder() / _RECORDS
    if path.is_file() and path.stat().st_size:
        return ""
    named = "REALM_DATA names it" if os.environ.get(DATA_ENV) else "REALM_DATA names no other"
    return (
        f"The data folder {data_folder()} has no records ({named}). If the service keeps its data elsewhere, say "
        f"where: {DATA_ENV}=/the/folder manage.py {name} …; otherwise `make run` makes them."
    )


def envbool(name: str, default: bool) -> bool:
    """A boolean: 1/0, true/false, yes/no, on/off."""
    value = os.environ.get(name)
    if value is None:
        return default
    if value.strip().lower() in _TRUE:
        return True
    if value.strip().lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}.")


def envint(name: str, default: int, *, minimum: int = 0, maximum: int | None = None) -> int:
    """A whole number, at least `minimum` and at most `maximum`."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None
    if number < minimum:
        raise ImproperlyConfigured(f"{name} must be at least {minimum}, not {number}.")
    if maximum is not None and number > maximum:
        raise ImproperlyConfigured(f"{name} must be at most {maximum}, not {number}.")
    return number


def envchoice(name: str, default: TextT, choices: Sequence[TextT]) -> TextT:
    """One of a few words."""
    value = os.environ.get(name, "").strip() or default
    chosen = next((word for word in choices if word == value), None)
    if chosen is None:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return chosen


def envlevel(name: str, default: str) -> str:
    """A log level of Python, in upper or lower case."""
    value = os.environ.get(name, "").strip() or default
    if value.upper() not in logging.getLevelNamesMapping():
        raise ImproperlyConfigured(f"{name} must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not {value!r}.")
    return value.upper()


def envsearch() -> WantedSearch:
    """REALM_SEARCH; for milvus the server that REALM_MILVUS_URI and REALM_MILVUS_TOKEN name."""
    kinds: tuple[SearchKind, ...] = get_args(SearchKind)
    chosen = envchoice("REALM_SEARCH", "auto", (*kinds, "milvus"))
    if chosen != "milvus":
        return next(kind for kind in kinds if kind == chosen)
    uri = os.environ.get("REALM_MILVUS_URI", "").strip()
    if not uri:
        raise ImproperlyConfigured("REALM_SEARCH=milvus needs REALM_MILVUS_URI, such as http://host:19530.")
    try:
        return MilvusServer(uri, os.environ.get("REALM_MILVUS_TOKEN", "").strip())
    except RealmError as error:
        raise ImproperlyConfigured(f"REALM_MILVUS_URI: {error}") from None


def checkstore(data: Path) -> None:
    """REALM_STORE, for this process and its children, which then know the data folder, too."""
    if os.environ.get(STORE_ENV, "").strip():
        os.environ[DATA_ENV] = str(data)
    try:
        check_settings()
    except RealmError as error:
        raise ImproperlyConfigured(str(error)) from None


def shipped_model(models: Path, default: str) -> str:
    """The shipped model to serve: MODEL, one of the folders in `models`."""
    name = os.environ.get("MODEL", "").strip() or default
    known = sorted(path.parent.name for path in models.glob("*/config.json"))
    if name != default and name not in known:
        raise ImproperlyConfigured(f"MODEL must be one of {', '.join(known)}, not {name!r}.")
    return name


def envlist(name: str, default: list[str]) -> list[str]:
    """Words separated by commas; surrounding spaces are ignored."""
    value = os.environ.get(name)
    if value is None:
        return default
    return [word.strip() for word in value.split(",") if word.strip()]


def envheader(name: str, *, proxies: int) -> str:
    """A header field in which a trusted proxy tells who somebody is, such as X-Forwarded-User; "" by default."""
    value = os.environ.get(name, "").strip()
    if not value:
        return ""
    if not _HEADER.fullmatch(value) or value.lower() in _FROM_CLIENTS:
        raise ImproperlyConfigured(
            f"{name} must name a header that only the proxy sets, written with dashes, such as X-Forwarded-User, not "
            f"{value!r}."
        )
    if not proxies:
        raise ImproperlyConfigured(
            f"{name} needs PROXIES of at least 1: without a proxy that removes {value} from what clients send, anyone "
            "could name themselves as they like."
        )
    return value


def envrate(name: str, default: str) -> str:
    """A rate such as "60/min"; "0" disables the limit."""
    value = os.environ.get(name, default).strip()
    if value == "0":
        return value
    number, _, period = value.partition("/")
    if not number.isdecimal() or int(number) < 1 or period not in {"s", "sec", "min", "hour", "day"}:
        raise ImproperlyConfigured(
            f"{name} must read like 60/min (a number, a slash, and s, sec, min, hour or day) or 0, not {value!r}."
        )
    return value


def secret_key(path: Path) -> str:
    """The secret key in `path`, generated on first use."""
    return _kept_secret(path, "a secret key", size_bytes=50, shortest=32)


def first_password(path: Path) -> str:
    """The first administrator's password in `path`, generated on first use."""
    return _kept_secret(path, "a password", size_bytes=12, shortest=16)


def _kept_secret(path: Path, what: str, *, size_bytes: int, shortest: int) -> str:
    """The secret in `path`, generated on first use with so many random bytes, readable only by its owner.

    Several processes may start at the same time: each writes its own file, and the first whose link to `path` succeeds
    decides the secret for all. An existing secret is never overwritten.
    """
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(size_bytes))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    secret = path.read_text(encoding="ascii").strip()
    if len(secret) < shortest:
        raise ImproperlyConfigured(f"{path} should hold {what} but does not; remove it and start again.")
    return secret


def reached_by_others(*, https: bool, proxies: int, origins: Sequence[str], hosts: Sequence[str]) -> str:
    """The variable that shows that the site is reachable from other machines; empty if none does.

    A server that listens only on this machine can still be reached through a proxy or a tunnel, and whoever configures
    one sets one of these variables.
    """
    elsewhere = [host for host in hosts if host.lower() not in _LOCAL_HOSTS and not host.lower().endswith(".localhost")]
    network = {"HTTPS": https, "PROXIES": proxies, "CSRF_TRUSTED_ORIGINS": origins, "ALLOWED_HOSTS": elsewhere}
    return next((name for name, value in network.items() if value), "")


def check_production(why: str, *, key: str, debug: bool, hosts: Sequence[str]) -> None:
    """Refuse settings that are unsafe on a server reachable by others. why: the variable that shows that it is."""
    where = f"on a server that others reach ({why} says so)"
    # The length that Django's own check (security.W009) requires.
    if len(key) < 50 or len(set(key)) < 5 or key.startswith("django-insecure-"):
        raise ImproperlyConfigured(f"SECRET_KEY must be at least 50 random characters {where}; without it one is made.")
    if debug:
        raise ImproperlyConfigured(f"DEBUG must be off {where}: its error pages show settings and source.")
    if "*" in hosts:
        raise ImproperlyConfigured(
            f"ALLOWED_HOSTS must name the site {where}, not *: links are made from the name asked for."
        )
    if not os.environ.get("REALM_PUBLIC"):
        raise ImproperlyConfigured(
            f"REALM_PUBLIC must say, {where}, whether anyone may ask (1) or only people with an account (0)."
        )
