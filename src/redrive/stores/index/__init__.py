"""The index engine: every verb evaluated in memory. Not here: files (`stores.jsonl`), SQL (`stores.sql`)."""
