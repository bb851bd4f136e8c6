"""Accounts: login, tokens, passwords, the audit trail."""
