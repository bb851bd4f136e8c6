"""Deleted rows in the log of SQLite."""

from __future__ import annotations

from django.db import connection


def empty_log() -> None:
    """Write the log (`-wal`) into the database and empty it; deleted rows are overwritten there (`secure_delete`).

    By itself SQLite only overwrites the log piece by piece, on a quiet server after days. Nothing within a transaction,
    and with another database.
    """
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
