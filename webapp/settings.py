"""Django's settings. Settings that differ between machines come from environment variables:

REALM_DATA           data folder (default: var/ in the checkout)
REALM_STORE          object store of corpora, models and indexes, for machines without a shared data folder, such as
                     s3://bucket/prefix; credentials and AWS_ENDPOINT_URL as for every program of AWS (default: none)
DATABASE_URL         default: SQLite in the data folder; postgres://user:password@host/name for PostgreSQL
BROKER_URL           Celery's broker (default: the embedded Valkey's socket in the data folder)
CACHE_URL            counters of the rate limits: redis://…, unix://… or locmem:// (default: the embedded Valkey)
SECRET_KEY           default: made on first use and kept in the data folder
DEBUG                default: off
ALLOWED_HOSTS        names that the site answers to, separated by commas (default: this machine only)
CSRF_TRUSTED_ORIGINS origins such as https://example.org, separated by commas
CORS_ORIGINS         origins whose pages may call REST and MCP from a browser, with a token (default: none)
HTTPS                on behind a proxy that speaks TLS and sets X-Forwarded-Proto; required to listen beyond this
                     machine or at a Unix socket
REALM_DEVICE         where the model runs: auto, cpu, cuda, …
REALM_SEARCH         how blocks are found: exact, ivf (approximately), milvus, or auto (default): as the index was built
REALM_MILVUS_URI     the server of REALM_SEARCH=milvus, such as http://host:19530
REALM_MILVUS_TOKEN   its user:password or key (default: none)
REALM_FOLD           whether edits of documents are folded into a new index where it is worth it: auto (default) or off
PROXIES              how many trusted proxies stand in front and add to X-Forwarded-For (default: none)
LOGIN_HEADER         header in which a trusted proxy passes the name of the person who is logged in there, such as
                     X-Forwarded-User; the proxy must remove it from what clients send (default: none)
LOGIN_GROUPS_HEADER  header in which it passes their groups, separated by commas (default: none)
REALM_PUBLIC         whether anyone may ask without an account (default: on; must be said where others reach the server)
ASK_RATE             questions allowed to one asker, such as 600/min (the default); 0 for no limit
ASK_QUEUE            questions that may wait for the engine of a web process; more are refused (default: 128)
ASK_DEADLINE_S       seconds in which a question is answered or refused (default: 30)
ASK_CACHE_S          seconds for which the same question gets the same answer without computing (default: 300; 0: never)
WEB_PATIENCE_S       seconds within which a request must arrive completely: header fields, then the body (default: 60)
                     and during which a connection may read nothing of its response (on Linux)
DATABASE_POOL        connections to PostgreSQL that the threads of a process share (default: none; a web server's: 16)
WORKER_QUEUES        queues that a worker takes jobs from, separated by commas (default: all); or `fetch`, for addresses
WORKER_SLOTS         jobs that a worker runs at once (default: 3), or addresses that it fetches (default: 8)
REALM_DEVICES        devices of a worker's trainings, such as cuda:0,cuda:1 (default: what nvidia-smi finds, or cpu)
REALM_HOST           name of a machine, the same in all its containers (default: the host's name)
JOB_NICENESS         niceness of jobs beside the web server on the same machine: from 0 to 19 (default: 10)
JOB_LEASE_S          seconds without a sign of life after which a worker's job is given to another (default: 60)
MODEL                the shipped model to serve (default: realm-base)
METRICS_OPEN         metrics for everybody, see docs/operations.md (default: off)
LOG_LEVEL            default: INFO
LOG_FORMAT           line (the default), or json for one object per line
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from realm_core.index.choice import WantedSearch
from webapp.environment import (
    check_production,
    checkstore,
    data_folder,
    envbool,
    envchoice,
    envheader,
    envint,
    envlevel,
    envlist,
    envrate,
    envsearch,
    reached_by_others,
    records_url,
    secret_key,
    shipped_model,
)

BASE_DIR = Path(__file__).resolve().parent.parent
REALM_DATA = data_folder()
try:
    REALM_DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
except OSError as error:
    raise ImproperlyConfigured(f"The data folder {REALM_DATA} (REALM_DATA) cannot be made: {error.strerror}.") from None
checkstore(REALM_DATA)
MODELS_DIR = BASE_DIR / "models"  # the shipped ones
MODEL = shipped_model(MODELS_DIR, "realm-base")
MODEL_IS_CHOSEN = bool(os.environ.get("MODEL", "").strip())
REALM_DEVICE = os.environ.get("REALM_DEVICE", "auto")
REALM_SEARCH: WantedSearch = envsearch()
REALM_FOLD = envchoice("REALM_FOLD", "auto", ("auto", "off"))

HTTPS = envbool("HTTPS", False)
DEBUG = envbool("DEBUG", False)
SECRET_KEY = os.environ.get("SECRET_KEY") or secret_key(REALM_DATA / "secret_key")
ALLOWED_HOSTS = envlist("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = envlist("CSRF_TRUSTED_ORIGINS", [])
PROXIES = envint("PROXIES", 0)
LOGIN_HEADER = envheader("LOGIN_HEADER", proxies=PROXIES)
LOGIN_GROUPS_HEADER = envheader("LOGIN_GROUPS_HEADER", proxies=PROXIES)
if LOGIN_GROUPS_HEADER and (not LOGIN_HEADER or LOGIN_GROUPS_HEADER.lower() == LOGIN_HEADER.lower()):
    raise ImproperlyConfigured("LOGIN_GROUPS_HEADER needs LOGIN_HEADER, and must name another header.")
# The variable that shows that others reach the site, or "".
IN_PRODUCTION = reached_by_others(https=HTTPS, proxies=PROXIES, origins=CSRF_TRUSTED_ORIGINS, hosts=ALLOWED_HOSTS)
if IN_PRODUCTION:
    check_production(IN_PRODUCTION, key=SECRET_KEY, debug=DEBUG, hosts=ALLOWED_HOSTS)
# The supervisor asks for readiness at this address, whatever the site's name.
ALLOWED_HOSTS = [*ALLOWED_HOSTS, "127.0.0.1"]

# ---- parts

INSTALLED_APPS = [
    "webapp.apps.WebappConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "csp",
    "axes",
    "corsheaders",
]
MIDDLEWARE = [
    "webapp.middleware.RequestIdMiddleware",
    # The headers for browsers come first, so that static files, redirects and refusals have them, too.
    "webapp.middleware.BrowserPolicyMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webapp.metrics.middleware.MeasuringMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "webapp.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "webapp.bodies.BodyMiddleware",  # before CsrfViewMiddleware, which may read the body
    "django.middleware.csrf.CsrfViewMiddleware",
    "webapp.accounts.sessions.ShortSessionMiddleware",
    "webapp.accounts.by_proxy.ProxyLoginMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.access.roles.rights",
            ]
        },
    }
]

# ---- database

_SQLITE_OPTIONS = {
    # A transaction that first reads and then writes cannot wait for the lock in SQLite's default mode; IMMEDIATE takes
    # the lock at once, and the timeout applies.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,  # seconds to wait for another writer
    # secure_delete: what was purged must not stay in free pages.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; "
    "PRAGMA secure_delete=ON;",
}
# A server that disappears without closing connections (power loss, network failure) is noticed within 25 seconds; the
# system's default is hours, during which a worker would neither renew its lease nor give up. libpq ignores options that
# do not apply to a Unix socket.
_POSTGRESQL_OPTIONS = {
    "connect_timeout": 5,  # seconds
    "keepalives": 1,
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}


def _database(url: str) -> dict[str, Any]:
    try:
        config: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    except (ValueError, dj_database_url.UnknownSchemeError) as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config["OPTIONS"] = {**config.get("OPTIONS", {}), **_SQLITE_OPTIONS}
    elif config["ENGINE"] == "django.db.backends.postgresql":
        config["OPTIONS"] = {**_POSTGRESQL_OPTIONS, **config.get("OPTIONS", {})}
        if most := envint("DATABASE_POOL", 0):
            # Far more threads wait for the engine than a server has connections; the pool shares its connections among
            # them. A thread waits for one for at most `timeout` seconds. By default the pool reconnects after ever
            # longer pauses, up to minutes; with a short `reconnect_timeout` it reconnects on demand.
            config["OPTIONS"]["pool"] = {"min_size": 1, "max_size": most, "timeout": 5, "reconnect_timeout": 2}
            config["CONN_MAX_AGE"] = 0
    return config


DATABASES = {"default": _database(records_url())}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---- broker and cache

VALKEY_SOCKET = REALM_DATA / "valkey.sock"
BROKER_URL = os.environ.get("BROKER_URL") or f"redis+socket://{VALKEY_SOCKET}"


def _cache(url: str) -> dict[str, Any]:
    """The cache counts requests for the rate limits, so all processes must share one.

    Values are JSON: Django's own serialiser is pickle, which would execute what any writer of the cache put there.
    """
    if url.startswith("locmem:"):
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "realm"}
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": url,
        "KEY_PREFIX": "realm",
        "OPTIONS": {"serializer": "webapp.cache.JSONSerializer", "socket_connect_timeout": 1, "socket_timeout": 1},
    }


CACHES = {"default": _cache(os.environ.get("CACHE_URL") or f"unix://{VALKEY_SOCKET}?db=1")}

# ---- people

REALM_PUBLIC = envbool("REALM_PUBLIC", True)
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
if LOGIN_HEADER:
    AUTHENTICATION_BACKENDS.append("webapp.accounts.by_proxy.ProxyBackend")
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=30)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # locking a name alone would let anyone lock it
AXES_CLIENT_IP_CALLABLE = "webapp.access.limits.client_address"  # not the proxy's address
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_TEMPLATE = "manage/locked_out.html"
AXES_VERBOSE = False

SESSION_COOKIE_AGE = 365 * 24 * 3600  # seconds; an anonymous asker's history belongs to the session
SHORT_SESSION_SECONDS = 12 * 3600  # for admins and curators, whose decisions affect everybody
SESSION_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "webapp.pages.errors.csrf_failure"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

# ---- what a browser may do

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],  # data: for images in the administration's style sheets
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^(healthz|readyz|metrics)$"]  # requested from the network behind the proxy
    SECURE_HSTS_SECONDS = 30 * 24 * 3600
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
# Policies for the whole domain (HSTS preload, subdomains) are its owner's decision.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# ---- static files: served from their folder, so there is no collecting step that can be forgotten

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True  # a file is found when it is asked for, and then known: webapp/static_files.py
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_MAX_AGE = 0 if DEBUG else 300  # seconds; short, because names carry no hash

# ---- language and time

LANGUAGE_CODE = "en-gb"
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

# ---- REST

ASK_RATE = envrate("ASK_RATE", "600/min")  # about what two cores can answer: a limit for floods, not for people
ASK_QUEUE = envint("ASK_QUEUE", 128, minimum=1)
ASK_DEADLINE_S = envint("ASK_DEADLINE_S", 30, minimum=1)
ASK_CACHE_S = envint("ASK_CACHE_S", 300)
METRICS_OPEN = envbool("METRICS_OPEN", False)
JOB_NICENESS = envint("JOB_NICENESS", 10, maximum=19)  # with 5, a training halves the speed of answering
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20  # bytes; a question is a few hundred
DATA_UPLOAD_MAX_NUMBER_FILES = 1_000  # a form says itself that a hundred are too many (`pages/uploads.py`)
# Pages of other sites authenticate with a token, never with the visitor's cookies.
CORS_ALLOWED_ORIGINS = envlist("CORS_ORIGINS", [])
CORS_URLS_REGEX = r"^/(api/|mcp$)"
CORS_ALLOW_HEADERS = (
    *("accept", "authorization", "content-type", "idempotency-key", "if-match", "if-none-match", "x-request-id"),
    *("mcp-protocol-version", "mcp-method", "mcp-name"),
)
CORS_EXPOSE_HEADERS = (
    *("etag", "idempotency-replayed", "location", "ratelimit", "ratelimit-policy", "retry-after"),
    *("server-timing", "x-request-id"),
)
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "webapp.rest.problems.problem_response",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "REALM question answering",
    "DESCRIPTION": "Answers to questions from a corpus of text, each with the blocks that it came from and their "
    "probabilities. Errors are problem details (RFC 9457).",
    "VERSION": "1",
    "LICENSE": {"name": "Apache-2.0"},
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "PATH_CONVERTER_OVERRIDES": {"any_text": str},
    "ENUM_NAME_OVERRIDES": {
        "KindEnum": "webapp.jobs.serializers.KIND_CHOICES",
        "GoneEvidenceKindEnum": "webapp.asking.serializers.GONE_KINDS",
        "ScheduleStageEnum": "webapp.models.schedule.ScheduleStage",
        "CauseEnum": "webapp.explaining.serializers.CAUSE_CHOICES",
        "OutcomeEnum": "webapp.ledger.api.OUTCOME_CHOICES",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "webapp.rest.description.without_the_databases_limits",
        "webapp.rest.description.null_as_a_choice",
        "webapp.rest.description.shared_headers",
    ],
}

# ---- log

LOG_FORMAT = os.environ.get("LOG_FORMAT", "line").strip().lower()
if LOG_FORMAT not in {"line", "json"}:
    raise ImproperlyConfigured(f"LOG_FORMAT must be line or json, not {LOG_FORMAT!r}.")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "webapp.logs.TextLines", "fmt": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": "webapp.logs.JSONLines"},
    },
    "filters": {
        # Django logs every 5xx as an error; a 503 of ours means "not ready yet", and clients repeat such requests.
        "no_503": {"()": "django.utils.log.CallbackFilter", "callback": lambda r: getattr(r, "status_code", 0) != 503}
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["no_503"]}},
    "root": {"handlers": ["console"], "level": envlevel("LOG_LEVEL", "INFO")},
    # Django logs to its own handlers only if DEBUG is on; here all messages go to the same handlers.
    "loggers": {"django": {"handlers": [], "propagate": True}, "axes": {"level": "WARNING"}},
}
