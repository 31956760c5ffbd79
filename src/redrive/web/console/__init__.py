"""The console: the desk in a browser, served beside the JSON API.

Here: pages (`pages`), sign-in (`sessions`), how values are shown (`render`, `shown`, `charts`, `texts`) and
the requests themselves (`site`, `requests`). Templates, styles and scripts are files beside them. Not here:
what actions do (`web.api`, the same functions as for the API) and what is shown of jobs (`desk`, masked).
"""
