"""Masking: no secret is read by others, no text drives a terminal."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.errors import UsageError
from redrive.payloads import secret_names
from redrive.payloads.editing import shown
from redrive.payloads.masking import (
    MASK,
    error_text,
    inert,
    mask_json,
    mask_payload,
    mask_text,
    safe_text,
    secrets_in,
    secrets_of,
)
from redrive.payloads.secret_names import add_secret_names, is_secret_name
from redrive.payloads.strict_json import Json
from tablekit import each_row

SECRET_NAMES = """
    passWord PassWord pw db_pw credit_card mfa_code verificationCode one_time_code security_answer old_pass
    password passwd PASSWORD userPassword db-password PGPASSWORD old_password2 password_hash
    passwords pwd MYSQL_PWD passphrase DB_PASS smtpPass secret client_secret clientSecret
    CLIENTSECRET secrets token access_token accessToken refreshToken csrftoken X-Auth-Token
    token_value access_tokens api_key apiKey apikey API-KEY X-Api-Key APIKey api_keys
    api.key private_key privateKey ssh_private_key_pem access_key AWS_SECRET_ACCESS_KEY
    signing_key encryptionKey session_key session_token account_key authorization Authorization
    Proxy-Authorization cookie Set-Cookie cookies credential credentials creds dsn SENTRY_DSN
    bearer jwt otp cvv cvc2 card_number cardNumber iban ssn pin user_pin basic_auth
    PHPSESSID sessionid session_id X-Session-ID pass PASS mnemonic seed_phrase seedPhrase recovery_codes
    passwort Passwort kennwort mot_de_passe motDePasse contrasena senha wachtwoord salasana heslo
    DATABASE_URL databaseUrl redis_url db_uri connection_string connectionString secret_id
""".split()  # noqa: SIM905 - read as words

INNOCENT_NAMES = """
    user name key keys keyboard monkey id idempotency_key primary_key storage_key
    tokenizer max_tokens tokens tokens_used token_type token_count maxToken token_url token_env
    token_expires_at password_changed_at password_length has_password has_api_key is_secret secret_name
    access_key_id cookie_policy pin_code pinned mapping shipping author authority auth
    session sessionId session_count passed passes passenger compass bypass boarding_pass pass_count url base_url
    callback_url card discard cardinality session_id_count mnemonics_enabled
    dsnap tag iband email status url data 42 _
""".split()  # noqa: SIM905 - read as words


@each_row("name", SECRET_NAMES)
def test_a_name_that_says_secret_is_one(name: str) -> None:
    assert is_secret_name(name)


@each_row(
    "name",
    [
        "パスワード",
        "ログインパスワード",
        "密码",
        "密碼",
        "비밀번호",
        "пароль",
        "contraseña",
        "CONTRASEÑA",
        "hasło",
        "şifre",
        "ｐａｓｓｗｏｒｄ",
        "Ａpi-Key",
        "pass\u200bword",
    ],
)
def test_passwords_of_other_languages_are_secret(name: str) -> None:
    assert is_secret_name(name)


@each_row("name", ["", "é", "日付", "名前", "año", *INNOCENT_NAMES])
def test_a_name_that_only_sounds_like_one_is_not(name: str) -> None:
    assert not is_secret_name(name)


@each_row("name", SECRET_NAMES)
@each_row(
    "pattern",
    ["{}=CANARY1", '"{}": "CANARY1"', "x {} : CANARY1, y", "f({}='CANARY1')", '{{"{}":"CANARY1"}}'],
)
def test_every_secret_name_hides_its_value_in_text(name: str, pattern: str) -> None:
    masked = mask_text(pattern.format(name))
    assert "CANARY1" not in masked
    assert name in masked


def test_a_very_long_name_is_judged_too() -> None:
    assert is_secret_name("x_" * 500 + "password")
    assert not is_secret_name("x" * 5000)


def test_payload_views_hide_secrets_and_leave_the_payload_alone() -> None:
    payload: dict[str, Any] = {
        "user": "ada",
        "password": "hunter22",
        "pin": 493817,
        "cookie": {"sid": ["abcd1234", None, True]},
        "note": "login with hunter22 or abcd1234; see https://u:pw@h/",
        "rows": [{"apiKey": "k"}, "Bearer abc.def.ghi", 7, None],
        "sk-ant-REDACTED": 1,
    }
    before = json.dumps(payload)
    assert mask_payload(payload) == {
        "user": "ada",
        "password": MASK,
        "pin": MASK,
        "cookie": MASK,
        "note": f"login with {MASK} or {MASK}; see https://u:{MASK}@h/",
        "rows": [{"apiKey": MASK}, f"Bearer {MASK}", 7, None],
        MASK: 1,
    }
    assert json.dumps(payload) == before


def test_secrets_are_collected_longest_first() -> None:
    payload: dict[str, Any] = {
        "token": ["abcd", {"x": "longest-of-all"}],
        "pin": 123456,
        "secret": True,
        "password": "abc",
        "cvv": 12.75,
        "name": "ada lovelace",
        "list": [{"apiKey": "abcd"}, None],
    }
    assert secrets_in(payload) == ("longest-of-all", "123456", "12.75", "abcd")


@each_row(
    "text, secrets, masked",
    [
        ("login hunter2!x failed", ["hunter2!x"], "login ••• failed"),
        ("pytest failed the test", ["test"], "pytest failed the •••"),
        ("GET /?q=p%40ss%2Fword+1", ["p@ss/word 1"], "GET /?q=•••"),
        ("GET /p%40ss/word%201", ["p@ss/word 1"], "GET /•••"),
        (repr("it's\n\x00quoted"), ["it's\n\x00quoted"], '"•••"'),
        (json.dumps("zoë\n12345"), ["zoë\n12345"], '"•••"'),
        ("surrogate \ud800-abcdef", ["\ud800-abcdef"], "surrogate •••"),
        ("abcdefgh and abcdefghijkl", ["abcdefgh", "abcdefghijkl"], "••• and •••"),
        ("db_password=xyzzy1 password", ["password"], "db_•••=••• •••"),
        ("untouched", ["", "absent-secret"], "untouched"),
        (repr("gehört-uns".encode()), ["gehört-uns"], "b'•••'"),
        ("key sk-ant-REDACTED", ["sk-ant-"], "key •••"),
        ("password=my long phrase, ok", ["my long phrase"], "password=•••, ok"),
        ("GET /?q=p%40ss%2fword+1", ["p@ss/word 1"], "GET /?q=•••"),
        ("next=%2Flogin%3Fp%3Dp%2540ss%252Fword", ["p@ss/word"], "next=%2Flogin%3Fp%3D•••"),
        ("<b>a&amp;b&quot;c&lt;d</b>", ['a&b"c<d'], "<b>•••</b>"),
        (json.dumps(json.dumps('a"b/c\\d')), ['a"b/c\\d'], r'"\"•••\""'),
        (r"a\/b\/cdef", ["a/b/cdef"], "•••"),
        (ascii("gehört-uns"), ["gehört-uns"], "'•••'"),
        ("said HUNTER-22-X", ["Hunter-22-x"], "said •••"),
        (b"Hunter22x".hex(), ["Hunter22x"], "•••"),
        (b64encode(b"Hunter22x?>").decode(), ["Hunter22x?>"], "•••="),
    ],
)
def test_a_known_secret_is_hidden_however_it_is_spelled(
    text: str, secrets: list[str], masked: str
) -> None:
    assert mask_text(text, secrets) == masked


@each_row("lead", ["", "u", "me", "ada", "ada:", "ada-x:"])
@each_row("tail", ["", "1", "-2", ":xy"])
def test_a_known_secret_is_hidden_inside_base64(lead: str, tail: str) -> None:
    """What other bytes share with it may stay: less than a character at each end."""
    text = b64encode(f"{lead}Hunter22?>{tail}".encode()).decode()
    for said in (text, text.replace("+", "-").replace("/", "_")):
        masked = mask_text(said, ["Hunter22?>"])
        assert "•••" in masked
        assert len(masked) <= len(b64encode(f"{lead}{tail}".encode())) + 7


def test_a_secret_number_is_hidden_wherever_it_recurs() -> None:
    payload: Json = {"pin": 4711, "rows": [4711, 4712, True], "text": "4711", "cost": 12.5}
    masked = {"pin": "•••", "rows": ["•••", 4712, True], "text": "•••", "cost": 12.5}
    assert mask_payload(payload) == masked


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----"

SHAPES = [
    ("Incorrect API key: sk-proj-abcdefgh1234.", "Incorrect API key: •••."),
    ("key sk-ant-REDACTED", "key •••"),
    ("key sk-abcd****************wxyz", "key •••"),
    ("a task-oriented risk-assessment", "a task-oriented risk-assessment"),
    ("stripe sk_live_0123456789 whsec_0123456789", "stripe ••• •••"),
    ("ghp_0123456789abcdefghij", "•••"),
    ("github_pat_0123456789abcdefghij", "•••"),
    ("xoxb-0123456789-abc", "•••"),
    ("id AKIAIOSFODNN7EXAMPLE", "id •••"),
    ("AIzaSyA0123456789abcdefghijklmnopqrstu", "•••"),
    ("jwt%3DeyJhbGciOiJub25lIn0.eyJhIjoxfQ.c2ln", "jwt%3D•••"),
    ("got Bearer abc123.x-y", "got Bearer •••"),
    ("Bearer%20dXNlcjpwYXNz", "Bearer%20•••"),
    ("Basic dXNlcjpwYXNz", "Basic •••"),
    ("Basic authentication failed, Bearer token missing",) * 2,
    ("postgres://ada:p@ss@db:5432/x", "postgres://ada:•••@db:5432/x"),
    ("postgres://ada:pa/ss@db/x", "postgres://ada:•••@db/x"),
    ("redis://:pw@h:6379/0", "redis://:•••@h:6379/0"),
    ('{"u":"https:\\/\\/ada:pw@h\\/"}', '{"u":"https:\\/\\/ada:•••@h\\/"}'),
    ("https://h:8080/p?to=a@b.c",) * 2,
    ("https://ada@h/p and std::vector",) * 2,
    ("/x?a=1&token=t&X-Amz-Signature=s&sig=q#f", "/x?a=1&token=•••&X-Amz-Signature=•••&sig=•••#f"),
    ("/maps?key=abc&z=1", "/maps?key=•••&z=1"),
    ("https://hooks.slack.com/services/T0/B0/x", "https://hooks.slack.com/services/•••"),
    ("Server=db;Password=p,w;Database=x", "Server=db;Password=•••;Database=x"),
    ("host=db password=p&w user=x", "host=db password=•••&w user=x"),
    ('{"api_key":"a\\"b","x":1}', '{"api_key":"•••","x":1}'),
    ("{'password': 'a\\'b', 'x': 1}", "{'password': '•••', 'x': 1}"),
    ('{\\"password\\": \\"hunter2\\", \\"x\\"', '{\\"password\\": \\"•••\\", \\"x\\"'),
    ('password="""abc"""; x', 'password="""•••"""; x'),
    ("token=b'abc' x", "token=b'•••' x"),
    ("tokens: access_tokens=['a', 'b'] x", "tokens: access_tokens=••• x"),
    ('{"pin":1234,"x":"y"}', '{"pin":•••,"x":"y"}'),
    ("f(token=abc,user=x)", "f(token=•••,user=x)"),
    ("password=None token=null secret='' pin=",) * 2,
    ("if token == expected: std::token::kind",) * 2,
    ("KeyError: 'token'",) * 2,
    ("--password hunter2 --user ada", "--password ••• --user ada"),
    ("['x', '--token', 'abc', '--user', 'ada']", "['x', '--token', '•••', '--user', 'ada']"),
    ("> Authorization: AWS4 a, b\nHost: h", "> Authorization: •••\nHost: h"),
    ("sent Authorization: Bearer a b, c\nnext", "sent Authorization: •••\nnext"),
    ("{'Authorization': 'Bearer a', 'x': 1}", "{'Authorization': '•••', 'x': 1}"),
    ("sent Cookie: a=b; c=d", "sent Cookie: •••"),
    ("Set-Cookie: sid=1; Path=/", "Set-Cookie: •••"),
    ('Cookie: a="b c"; d=e\nHost: h', "Cookie: •••\nHost: h"),
    ("authorization: please log in", "authorization: ••• log in"),
    (f"{PEM}\nafter", "•••\nafter"),
    (f"cut {PEM[:40]}", "cut •••"),
    ("İ password=İx y", "İ password=••• y"),
    ("npm_0123456789abcdefghijABCDEFGHIJ012345 x", "••• x"),
    ("pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw x", "••• x"),
    ("gsk_0123456789abcdefghij", "•••"),
    ("xai-0123456789abcdefghijklmn", "•••"),
    ("GOCSPX-0123456789abcdefghij", "•••"),
    ("shpat_0123456789abcdef0123456789abcdef", "•••"),
    ("hvs.CAESIJ0123456789abcdef", "•••"),
    ("bot 123456789:AAF0123456789abcdefghijklmnopqrstuv at", "bot ••• at"),
    ("user=a&pass=hunter2&x=1", "user=a&pass=•••&x=1"),
    ("<password>hunter2</password><n>1</n>", "<password>•••</password><n>1</n>"),
    ('<ns:Password type="x">a b</ns:Password>', '<ns:Password type="x">•••</ns:Password>'),
    ("<token><![CDATA[abc]]></token>", "<token><![CDATA[•••]]></token>"),
    ("[('api_key','abc'), ('x', 'y')]", "[('api_key','•••'), ('x', 'y')]"),
    ("(b'x-api-key', b'ab\\'c')", "(b'x-api-key', b'•••')"),
    ("missing: ['password', 'email']",) * 2,
    ("パスワード=hunter2 次", "パスワード=••• 次"),
    ("パスワード：hunter2", "パスワード：•••"),
    ('{"пароль": "hunter2"}', '{"пароль": "•••"}'),
    ("contraseña: hunter2", "contraseña: •••"),
    ("DATABASE_URL=postgres:///x y", "DATABASE_URL=••• y"),
    ("the passenger: 12, bypass=1, boarding_pass=7",) * 2,
    ("npm_config_x pypi-mirror shpping hvs.x 12:AM 2026-01-01T10:AM",) * 2,
]


@each_row("text, masked", SHAPES)
def test_what_looks_like_a_secret_is_hidden_and_nothing_else(text: str, masked: str) -> None:
    assert mask_text(text) == masked
    assert mask_text(masked) == masked


fragments = st.sampled_from(
    [*"=:'\"\\@&,;/ \n{}[]", "://", "--", *SECRET_NAMES[:20], *(pair[0] for pair in SHAPES), MASK]
)


@given(st.lists(fragments | st.text(max_size=5), max_size=12).map("".join))
@example("password=x\npassword='")
def test_masking_again_changes_nothing(text: str) -> None:
    once = mask_text(text)
    assert mask_text(once) == once


@given(
    st.text("abcXYZ019!$%*+,-./:;<=>?@^_|~é &\n'\"\\", min_size=8, max_size=30),
    st.text(),
    st.text(),
)
def test_a_payload_secret_never_survives_in_error_text(
    secret: str, before: str, after: str
) -> None:
    text = mask_text(f"{before} {secret} {after}", secrets_in({"password": secret}))
    assert secret not in text.replace(before, "").replace(after, "")


SIZE = 200_000
"""A quadratic pattern would take more than the time limit of a test for so much text."""


@each_row(
    "piece",
    [
        *("a", " ", "=", ":", "'", '"', "\\", '\\"', "@", "-", ".", "/", "\n", "A", "\0", "é", "İ"),
        *(
            "key",
            "token",
            "key=",
            "token=",
            "password:'",
            'secret="',
            "token='a",
            "pin,",
            "a.",
            "Aa",
        ),
        *("://", "://a:", "://:@", "://a:1/", "?sig", "&a", "&key=", "--", "--a", "--token ", "- "),
        *(
            "sk-",
            "ghp_",
            "xoxb-",
            "eyJ",
            "eyJ.",
            "AKIA",
            "AIza",
            "SG.",
            "Bearer ",
            "Basic a",
            "basic",
        ),
        *("cookie:", "Cookie: a=", "cookie", "authorization: basic ", "Authorization:\n", "<> *\t"),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "hooks.slack.com/a", "token=[", "token=,a"),
    ],
)
def test_a_long_text_of_anything_is_masked_in_one_pass(piece: str) -> None:
    mask_text((piece * SIZE)[:SIZE], ["another-secret"])
    for lead in ("password=", "://a:", 'token="', "eyJ"):
        mask_text(lead + (piece * SIZE)[: SIZE // 10])


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


class Odd:
    def __str__(self) -> str:
        return 7  # type: ignore[return-value] # noqa: PLE0307 - the fault under test


class Endless:
    def __str__(self) -> str:
        return str(self)


@each_row(
    "value, text",
    [
        (ValueError("plain"), "plain"),
        (KeyError("vat_id"), "'vat_id'"),
        (Raises(ValueError("x")), "<Raises whose str() raised ValueError>"),
        (Odd(), "<Odd whose str() raised TypeError>"),
        (Endless(), "<Endless whose str() raised RecursionError>"),
        ("a\0b\ud800c", "a\\x00b\\ud800c"),
        ("x" * 2001, "x" * 2000 + "… (1 characters more)"),
        ("\0" * 501, "\\x00" * 500 + "… (4 characters more)"),
        ("x" * 10**8, "x" * 2000 + "… (99998000 characters more)"),
    ],
)
def test_any_object_becomes_text_that_can_be_kept(value: object, text: str) -> None:
    assert safe_text(value) == text


@given(st.text(st.characters()), st.integers(0, 20))
def test_safe_text_is_bounded_storable_and_whole_when_short(text: str, limit: int) -> None:
    safe = safe_text(text, limit)
    assert "\0" not in safe
    assert len(safe.encode().decode().partition("… (")[0]) <= max(limit, len(text))
    if len(text) <= limit and text.isprintable():
        assert safe == text


def test_error_text_is_masked_before_it_is_cut() -> None:
    error = ValueError("x" * 90 + " token=abcdefghijklmnop and more")
    assert error_text(error, limit=100) == "x" * 90 + " token=•••"[:10] + "… (9 characters more)"
    assert error_text(ValueError("my-secret-1 leaked"), ["my-secret-1"]) == "••• leaked"
    assert "abcdefgh" not in error_text(ValueError("y " * 10**6 + "abcdefgh"), ["abcdefgh"])


@each_row(
    "text, shown",
    [
        ("plain é 日本 😀", "plain é 日本 😀"),
        ("\x1b[2J\x1b]52;c;eA==\x07", "\\x1b[2J\\x1b]52;c;eA==\\x07"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x9b31m\x85\x7f\0", "\\x9b31m\\x85\\x7f\\x00"),
        ("\u202eevil\u2066\u200f", "\\u202eevil\\u2066\\u200f"),
        ("a\u200bb\ufeff\u00ad", "a\\u200bb\\ufeff\\xad"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800\U000e0041", "\\ud800\\U000e0041"),
    ],
)
def test_what_could_drive_a_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_lines_can_be_kept_but_nothing_else() -> None:
    assert inert("a\n\tb\r\x1b", keep_newlines=True) == "a\n\tb\\r\\x1b"


@given(st.text(st.characters()), st.booleans())
def test_inert_text_holds_no_control_of_any_kind(text: str, keep: bool) -> None:
    shown = inert(text, keep_newlines=keep)
    shown.encode()
    rest = shown.replace("\n", "").replace("\t", "") if keep else shown
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028" for c in rest)
    assert inert(shown, keep_newlines=keep) == shown
    assert len(rest.splitlines()) <= 1


def test_many_secrets_are_found_or_the_whole_text_is_hidden() -> None:
    """The work is bounded: thousands of secrets, all of which a long text may hold."""
    many = tuple(f"key-{number:05}-end" for number in range(5000))
    said = f"refused {many[7]}, then {many[4999]}: ask again"
    assert mask_text(said, many) == f"refused {MASK}, then {MASK}: ask again"
    assert mask_text("page " * 20_000, many) == "page " * 20_000
    assert mask_text("week-end " * 20_000, many) == MASK


def test_a_number_of_any_length_hides_nothing_from_masking() -> None:
    """Python converts at most 4,300 digits."""
    payload = '{"n":' + "1" * 5000 + ',"password":{"a":["hunter22"],"b":"hunter33"}}'
    assert secrets_of(payload) == ("hunter22", "hunter33")
    assert "hunter" not in mask_json(payload)


@each_row(
    "name, value, text, masked",
    [
        ("SHOP_API_TOKEN", "zq81-kfmw-ab", "got zq81-kfmw-ab back", "got ••• back"),
        ("DB_PASSWORD", "correct horse 1", "q=correct+horse+1", "q=•••"),
        ("QUEUE", "amqp://u:zq81kfmw9@h/", "login zq81kfmw9 refused", "login ••• refused"),
        ("POSTGRES_PASSWORD", "postgres", "no postgres here", "no postgres here"),
        ("DB_PASSWORD", "short1", "short1", "short1"),
        ("EDITOR", "zq81-kfmw-ab", "zq81-kfmw-ab", "zq81-kfmw-ab"),
    ],  # pytest puts them in a variable
)
def test_secrets_of_the_environment_are_hidden_in_any_text(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, text: str, masked: str
) -> None:
    """A variable whose name is secret, and the password of a URL in any variable."""
    monkeypatch.setenv(name, value)
    assert mask_text(text) == masked
    assert error_text(ValueError(text)) == masked
    monkeypatch.delenv(name)
    assert mask_text(text) == text


def test_the_names_are_open_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_names, "more", set[str]())
    assert not is_secret_name("kundennummer")
    add_secret_names(["kundenNummer", "顧客番号"])
    assert all(
        map(is_secret_name, ["kunden_nummer", "alteKundenNummer", "KUNDEN-NUMMER", "顧客番号"])
    )
    assert all(map(is_secret_name, ["kundennummer", "Kundennummer", "ｋundennummer", "新顧客番号"]))
    assert not any(map(is_secret_name, ["nummer", "nichtkundennummer", "kundennummer_id"]))
    assert mask_text("kunden_nummer=4711 顧客番号: 4711") == "kunden_nummer=••• 顧客番号: •••"
    with pytest.raises(UsageError, match="letters"):
        add_secret_names(["!"])


@pytest.fixture(autouse=True)
def names_are_forgotten() -> Iterator[None]:
    yield
    secret_names._says_secret.cache_clear()


@each_row(
    "piece",
    [
        "<password>",
        "<a ",
        "('a',",
        "('token','",
        "パスワード=",
        "=パ",
        "1234567890:A",
        "npm_",
        "shpat_a",
        "://",
        "://a:",
        ":\\/\\/a:",
    ],
)
def test_the_new_rules_are_linear_too(piece: str) -> None:
    """By CPU time, for twice the text."""
    spent: list[float] = []
    for size in (100_000, 200_000):
        began = process_time()
        mask_text((piece * size)[:size] + "@")
        spent.append(process_time() - began)
    assert spent[1] < 4 * spent[0] + 1.0


def test_backslashes_before_a_quote_are_read_once() -> None:
    """The closing quote is looked for with all of its backslashes, at each character."""
    began = process_time()
    half = "\\" * 500_000
    assert mask_text(f'password={half}"{half}x') == "password=•••"
    assert process_time() - began < 10


@each_row("form", ["s{:07d}", "{:07d}same"])
def test_many_secrets_and_many_texts_take_linear_time(form: str) -> None:
    """A payload of half a megabyte, half of it secrets; shown, and as a person edits it."""
    secrets = [form.format(number) for number in range(15_000)]
    payload: Json = {"access_tokens": secrets, "notes": [f"n{one}" for one in secrets]}
    began = process_time()
    assert mask_payload(payload)
    assert "•••" in shown(json.dumps(payload))
    assert process_time() - began < 60


@each_row(
    "payload",
    [
        {"headers": {"Authorization": "Bearer Zq7-opaque-93x"}},
        {"Authorization": "Token Zq7-opaque-93x"},
        {"Cookie": "theme=dark; sid=Zq7-opaque-93x"},
        {"database_url": "postgres://ada:Zq7-opaque-93x@db/shop"},
        {"dsn": "https://Zq7-opaque-93x@errors.example/1"},
        {"private_key": "-----BEGIN PRIVATE KEY-----\nZq7-opaque-93x\n-----END PRIVATE KEY-----"},
    ],
)
def test_the_secret_part_of_a_secret_is_masked_elsewhere(payload: dict[str, object]) -> None:
    """An error repeats the token of a header without its scheme, and of a URL only the password."""
    text = "Zq7-opaque-93x was refused by postgres at errors.example, BEGIN again as ada"
    assert mask_text(text, secrets_in(payload)) == text.replace("Zq7-opaque-93x", MASK)
