"""The console: the desk in a browser, served beside the JSON API.

Here: pages (`views`), the parts of them that refresh (`parts`), sign-in (`sessions`), how values are shown
(`shown`, `charts`, `texts`) and the requests themselves (`site`). Templates, styles and scripts are files
beside them. Not here: what actions do (`web.actions`, the same functions as for the API) and what is
shown of jobs (`desk`, masked).
"""
