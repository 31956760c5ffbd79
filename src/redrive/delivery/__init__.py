"""Sending to an endpoint over HTTP: where it may go, what goes out, what the answer means.

`guard` says which addresses may be connected to, `wire` sends one request to exactly those, `signing`
signs what is sent, `courier` puts it together. Of HTTP only the standard library's plain connection is
used: what follows redirects, reads proxies from the environment, keeps cookies or unpacks bodies is
not there to be switched off.
"""
