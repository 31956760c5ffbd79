"""What secrets look like in text: keys of well-known services, headers, URLs with passwords."""

from __future__ import annotations

import re
from typing import Final

# Each pattern either has a bounded lead or consumes what it has scanned (possessive
# repeats), so no text makes it start over from every character.
SHAPES: Final = tuple(
    (hints.split(), re.compile(pattern))
    for hints, pattern in {
        "-----begin": r"(?P<head>)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[ A-Z]{0,10}-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,60}-----|\Z)",
        # A header is hidden to its closing quote, or to the end of its line.
        "authorization cookie": r"(?i)(?P<head>(?:authorization[\"']?[:=]|cookie[\"']?:)"
        r"[ \t]{0,4}(?P<quoted>[\"'])?)(?=[^\s=;,]{1,256}="
        r"|(?:bearer|basic|digest|token|negotiate|apikey|aws4[\w-]{0,20}) )"
        r"(?(quoted)[^\r\n\"']*+|[^\r\n]*+)",
        # Not a short word in small letters: "Basic authentication failed" is prose.
        "bearer basic": r"\b(?P<head>(?i:bearer|basic)(?:\s{1,4}|%20))"
        r"(?![A-Za-z][a-z]{0,14}(?![\w.~+/=%-]))[\w.~+/=%-]{4,}+",
        r":// :\/": r"(?P<head>:\\?/\\?/[^\s/?#:@\"']{0,256}:)"
        r"(?:[^\s/?#\"']*|(?!\d{1,5}[/?#])(?:(?!:\\?/\\?/)[^\s\"'<>]){0,256})(?=@)",
        "sig key=": r"(?i)(?P<head>[?&](?:[\w.-]{0,40}(?:sig|signature)|key)=)[^&\s#\"'<>]++",
        "hooks.slack.com discord": r"(?i)(?P<head>(?:hooks\.slack\.com/\w{1,20}"
        r"|discord(?:app)?\.com/api/webhooks)/)[\w/-]++",
        "npm_ pypi- gsk_ xai- gocspx- shp hvs. hvb. dop_v1_ glsa_ ntn_ lin_api_ sntrys_ pplx-": r"(?P<head>)"
        r"\b(?:npm_[A-Za-z0-9]{20,}+|pypi-[\w-]{16,}+|gsk_\w{20,}+|xai-[\w-]{20,}+|GOCSPX-[\w-]{10,}+"
        r"|shp(?:at|ca|pa|ss)_\w{16,}+|hv[sb]\.[\w-]{16,}+|dop_v1_\w{16,}+|glsa_\w{16,}+|ntn_\w{16,}+"
        r"|lin_api_\w{16,}+|sntrys_[\w=+/]{16,}+|pplx-\w{16,}+)",
        # A bot's token at Telegram: its number, a colon, 35 characters.
        ":a": r"(?P<head>)(?<![0-9])(?:[0-9]{8,10}):A[\w-]{30,}+",
        "sk- sk_ rk_ whsec_ ghp_ gho_ ghu_ ghs_ ghr_ _pat_ glpat- xox xapp- akia asia aiza ya29."
        " hf_ sg. eyj": r"(?P<head>)(?:\b(?:sk-[\w*-]{8,}+|[sr]k_(?:live|test)_\w{8,}+"
        r"|whsec_[\w+/=-]{8,}+|gh[pousr]_\w{16,}+|(?:github|dckr)_pat_[\w-]{16,}+|glpat-[\w-]{16,}+"
        r"|xox[a-z]-[\w-]{8,}+|xapp-[\w-]{8,}+|A[KS]IA[A-Z0-9]{16,}+|AIza[\w-]{30,}+"
        r"|ya29\.[\w-]{16,}+|hf_\w{30,}+|SG\.[\w-]{16,64}\.[\w-]{16,}+)"
        r"|eyJ[\w-]{12,}+(?:\.[\w-]*+){0,4}+)",
    }.items()
)
# Every secret name contains one of these, so a text without them needs no closer look.
ROOTS: Final = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "cred", "dsn", "bearer", "jwt"),
    *("otp", "cv", "iban", "ssn", "sessi", "pin", "string", "card", "mnemon", "phrase"),
    *("kennwort", "contrasen", "senha", "wachtwoord", "salasana", "lozinka", "adgang", "heslo"),
    *("haslo", "sifre", "losenord", "parola", "recovery", "backup", "database", "redis", "mongo"),
    *("pw", "mfa", "2fa", "verification", "one_time", "onetime", "security"),
    *("postgres", "mysql", "amqp", "rabbit", "broker", "dbur", "db_ur", "db-ur", "db.ur"),
)
HINTS: Final = tuple(hint for hints, _ in SHAPES for hint in hints)
