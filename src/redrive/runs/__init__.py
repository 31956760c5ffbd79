"""Bulk retries: record, counts, stop rule, driver. Not here: starting one (`desk`), running jobs (`worker`)."""
