"""The ledger: what each change of documents did, and the kept answers that it touched."""
