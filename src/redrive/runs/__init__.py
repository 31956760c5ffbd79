"""Bulk retries: record, counts, rules, driver. Not here: starting one (`desk`), running jobs (`worker`)."""
