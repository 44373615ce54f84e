"""Requests that mean harm, or went wrong on their way: each is refused with a sentence."""

from __future__ import annotations

import asyncio
import json
import struct
import time
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cuvee.errors import InputError
from cuvee.serve.arrow import ARROW, to_arrow
from cuvee.serve.auth import KEPT, Role, Tokens, tokens_of
from cuvee.serve.limits import Limits
from cuvee.serve.problems import TITLES, Problem
from serve_builders import TOKENS, Client

URL = "/v1/targets/new%2Fward"
PREDICT = f"{URL}/predict"
GOOD = {"rows": [{"age": 1.0, "dose": 2.0, "sex": "f"}]}
SECRET = "a-secret-that-nobody-may-see"


def problem(answered, status, words=""):
    """The answer is a problem of this status, whose sentence holds these words."""
    assert answered.status_code == status, answered.text
    assert answered.headers["content-type"] == "application/problem+json"
    content = answered.json()
    assert content["status"] == status and words in content["detail"], content
    for advice in (
        " --",
        "(--",
        "sys.",
        "utf-8-sig",
        "in Python",
    ):  # which nobody can follow over HTTP
        assert advice not in content["detail"]
    return content


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/targets"), ("GET", URL), ("POST", PREDICT), ("POST", "/v1/mixtures"),
                     ("GET", "/metrics"), ("GET", "/v1/no/such"), ("PUT", "/v1/targets")]
)  # fmt: skip
def test_without_a_token_nothing_is_told(quantity, method, path, caplog):
    problem(quantity.ask(method, path, role=None), 401, "Authorization: Bearer")
    problem(quantity.ask(method, path, role=SECRET), 401, "not known")
    problem(
        quantity.ask(
            method, path, role=None, headers={"Authorization": f"Basic {TOKENS['adapt']}"}
        ),
        401,
    )
    assert SECRET not in caplog.text


def test_a_role_may_do_what_lower_roles_may_and_no_more(quantity):
    assert quantity.get("/v1/targets", role="read").status_code == 200
    problem(quantity.post(PREDICT, GOOD, role="read"), 403, "'predict'")
    problem(quantity.post("/v1/mixtures", {"alpha": {"north": 1.0}}, role="read"), 403)
    assert quantity.post(PREDICT, GOOD, role="predict").status_code == 200
    assert quantity.get("/v1/targets", role="adapt").status_code == 200


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc%2Fpasswd", "%00", "new%00ward", "<script>alert(1)</script>", "%1b[2J", "a" * 5000,
             "%f0%9f%92%a3", "%ff%fe", "new%2Fward%2F", "..%2Frun.json", "'; DROP TABLE jobs;--"]
)  # fmt: skip
def test_names_that_are_no_targets(quantity, name):
    content = problem(quantity.get(f"/v1/targets/{name}"), 404)
    assert all(c.isprintable() for c in content["detail"])
    problem(quantity.post(f"/v1/targets/{name}/predict", GOOD), 404)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b"[1, 2]", 422, "object"),
        (b"null", 422, "object"),
        (b"{}", 422, "'rows'"),
        (b'{"rows": []}', 422, "at least one row"),
        (b'{"rows": {}}', 422, "list"),
        (b'{"rows": [1]}', 422, "row 0"),
        (b'{"rows": [{"age": [1]}]}', 422, "'age'"),
        (b'{"rows": [{"age": 1}, {"age": 61, "dose": 2, "sex": "f", "age": 1}]}', 422, "row 1 gives 'age' more than once"),
        (b'{"rows": [{"age": 61, "dose": 2, "sex": "a: \\" f", "\\u0061ge" : 1}]}', 422, "row 0 gives 'age' more than once"),
        (b'{"rows": [], "rows": []}', 422, "an object of the body gives 'rows' more than once"),
        (b'{"rows": [{"age": 1, "sex": "\\ud800", "age": 1}]}', 422, "gives 'age' more than once"),
        (b'{"strict": true, "rows": [{"age": 1, "dose": 2, "sex": "12:30 \\"a\\": b"}]}', 422, "is '12:30 \"a\": b' at row 0"),
        (b'{"rows": [{"age": NaN}]}', 400, "NaN"),
        (b'{"rows": [{"age": 1e999}]}', 422, "no float"),
        (b'{"rows": [{"age": %s}]}' % (b"9" * 400), 422, "no float"),
        (b'{"rows": [{"age": %s}]}' % (b"9" * 9000), 400, "thousands of digits"),
        (b'\xef\xbb\xbf{"rows": []}', 400, "byte order mark"),
        (b'{"rows": [{"age": 1, "dose": null, "sex": "f"}]}', 422, "'dose' (1); fill them in, or leave these rows out"),
        (b'{"rows": [{"age": 1, "dose": 2}]}', 422, "'sex'"),
        (b'{"rows": [{"age": 1, "dose": 2, "sex": null}]}', 422, "'sex'"),
        (b'{"rows": [{"age": "old", "dose": 2, "sex": "f"}]}', 422, "'age' holds text"),
        (b'{"rows": [{"age": 1, "dose": 2, "sex": "\\ud800"}]}', 422, "'sex'"),
        (b'{"rows": [{"age": 1, "dose": 2, "sex": "\\u0000"}], "strict": true}', 422, "'sex'"),
        (b'{"rows": [{"age": 1, "dose": 2, "sex": ""}]}', 422, "'sex' (1); fill them in, or leave these rows out"),
        (b'{"rows": [{"age": 1e308, "dose": 2, "sex": "f"}, {"age": -1e308, "dose": 2, "sex": "f"}]}', 200, ""),
        (b'{"rows": [], "more": 1}', 422, "'more'"),
        (b"[" * 100_000, 422, "nested"),
        (b'{"rows":' + b'{"a":' * 50 + b"1" + b"}" * 51, 422, "nested"),
    ],
)  # fmt: skip
def test_bodies_that_are_no_rows(quantity, body, status, words):
    answered = quantity.ask(
        "POST", PREDICT, content=body, headers={"Content-Type": "application/json"}
    )
    if status == 200:
        assert answered.status_code in (200, 422)  # a number that far is refused or answered
    else:
        problem(answered, status, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("age,dose,sex\n1,2,f\n".encode("utf-16"), "is UTF-16; send it in UTF-8"),
        ("age,dose,sex\n1,2,mädchen\n".encode("latin-1"), "in line 2, is 0xE4"),
        (b"age,dose,sex\n1,2,f\n3,inf,f\n", "infinite at row 1 (1 such value); correct it, or leave the row out (row 1 is line 3 of the CSV)"),
        (b"age,dose,sex\n1,,f\n", "fill them in, or leave these rows out"),
        (b"age,dose,sex\n1,37%,f\n", "write plain numbers, such as 1234.5 (row 0"),
        (b"age,dose,sex\n1,\0,f\n", "is not text; send CSV in UTF-8"),
        (",".join(map(str, range(10**6))).encode() + b"\n1\n", "first line has more than 1,048,576 bytes"),
    ],
)  # fmt: skip
def test_advice_about_a_csv_can_be_followed(quantity, content, words):
    headers = {"Content-Type": "text/csv"}
    said = problem(quantity.post(PREDICT, content=content, headers=headers), 422, words)
    assert said["title"] == "Unprocessable Content"


def test_titles_are_those_of_rfc_9110_on_every_python(quantity):
    for status, title in ((413, "Content Too Large"), (422, "Unprocessable Content")):
        assert json.loads(Problem(status, "").response().body)["title"] == title
    assert {*map(int, TITLES)} <= {413, 414, 416, 422}


def test_formula_cells_are_text_like_any_other(quantity):
    rows = {"rows": [{"age": 1.0, "dose": 2.0, "sex": "=cmd|' /C calc'!A0"}], "strict": True}
    problem(quantity.post(PREDICT, rows), 422, "=cmd")


def test_a_million_columns(quantity):
    wide = '{{"rows": [{{{}}}]}}'.format(",".join([f'"{i}":1' for i in range(10**6)]))
    problem(
        quantity.post(PREDICT, content=wide.encode(), headers={"Content-Type": "application/json"}),
        413,
    )
    narrow = [{str(i): 1} for i in range(3000)]
    problem(quantity.post(PREDICT, {"rows": narrow}), 413, "columns")
    weights = dict.fromkeys(map(str, range(3000)), 0.0)
    problem(quantity.post("/v1/mixtures", {"alpha": weights}), 413, "weights")


def sparse(n_rows, n_columns):
    return [{f"c{i % n_columns}": 1} for i in range(n_rows)]


def test_rows_that_stand_for_many_more_values_than_they_hold(quantity):
    alone = quantity.post(PREDICT, GOOD).json()["predictions"]
    missing = [{**GOOD["rows"][0], "sex": None}, *GOOD["rows"]]  # so that it is read in a frame
    for rows, status, words in (
        (sparse(10_000, 1_990), 422, "there is no column 'age'"),
        ([*GOOD["rows"], *sparse(9_999, 1_990)], 422, "missing"),
    ):
        tracemalloc.start()
        problem(quantity.post(PREDICT, {"rows": rows}), status, words)
        assert tracemalloc.get_traced_memory()[1] < 40e6  # a dense table takes four times as much
        tracemalloc.stop()
    problem(quantity.post(PREDICT, {"rows": missing}), 422, "'sex'")
    more = [{**GOOD["rows"][0], "flag": True, "other": 1}]
    assert quantity.post(PREDICT, {"rows": more}).json()["predictions"] == alone
    frame = pd.DataFrame(more)
    assert arrow(quantity, to_arrow(frame)).json()["predictions"] == alone
    problem(arrow(quantity, to_arrow(frame.drop(columns="dose"))), 422, "no column 'dose'")


def test_values_are_limited_before_a_table_is_made(made):
    client = Client(made["cost"], Limits(cells=10))
    odd = [{**GOOD["rows"][0], "age": None}] * 4
    problem(client.post(PREDICT, {"rows": odd}), 413, "more than 10 values")
    many = pa.table({"age": pa.nulls(4), "dose": pa.nulls(4), "sex": pa.nulls(4)})
    problem(arrow(client, to_arrow(many.to_pandas())), 413, "4 rows of the 3 columns")


def test_huge_and_endless_bodies(made):
    client = Client(made["cost"], Limits(body=10_000, rows=50))
    problem(
        client.post(PREDICT, content=b" " * 10_001, headers={"Content-Type": "application/json"}),
        413,
    )
    problem(client.post(PREDICT, {"rows": [{"age": 1}] * 51}), 413, "51 rows")
    problem(client.post(PREDICT, content=b"1", headers={"Content-Length": "9" * 12}), 413)
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1000
            yield b" " * 1000

    problem(client.post(PREDICT, content=endless()), 413)
    assert sent < 100_000


def test_slow_clients(made):
    client = Client(made["cost"], Limits(body_seconds=0.1))

    async def drop_by_drop():
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    problem(client.post(PREDICT, content=drop_by_drop()), 408)


def test_requests_cut_off_in_the_middle(quantity):
    async def cut():
        messages = [
            {"type": "http.request", "body": b'{"rows": [{"age"', "more_body": True},
            {"type": "http.disconnect"},
        ]
        sent = []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        token = f"Bearer {TOKENS['adapt']}".encode()
        scope = {"type": "http", "method": "POST", "path": "/v1/targets/new/ward/predict", "query_string": b"",
                 "headers": [(b"authorization", token)], "raw_path": b"", "client": ("127.0.0.1", 1),
                 "server": ("test", 80), "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"}}  # fmt: skip
        await quantity.app(scope, receive, send)
        return sent

    asyncio.run(cut())
    assert quantity.post(PREDICT, GOOD).status_code == 200


def arrow(quantity, content):
    return quantity.post(PREDICT, content=content, headers={"Content-Type": ARROW})


def test_arrow_bombs(quantity):
    frame = pd.DataFrame({"age": np.zeros(5000), "dose": np.zeros(5000), "sex": ["f"] * 5000})
    table = pa.Table.from_pandas(frame)
    for codec in ("zstd", "lz4"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
        ) as out:
            out.write_table(table)
        problem(arrow(quantity, sink.getvalue().to_pybytes()), 415, "compressed")
    many = pa.table({"age": pa.nulls(10**9)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, many.schema) as out:
        out.write_table(many)
    content = sink.getvalue().to_pybytes()
    assert len(content) < 10_000
    problem(arrow(quantity, content), 413, "rows")
    nested = pa.table({"age": [[1.0]]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, nested.schema) as out:
        out.write_table(nested)
    problem(arrow(quantity, sink.getvalue().to_pybytes()), 422, "'age'")


def test_arrow_streams_with_any_damage(quantity):
    frame = pd.DataFrame({"age": [1.0, 2.0], "dose": [1.0, 2.0], "sex": ["f", "m"]})
    content, rng = to_arrow(frame), np.random.default_rng(0)
    cases = [content[:n] for n in range(0, len(content), 40)]
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            damaged[place] = rng.integers(256)
        cases.append(bytes(damaged))
    cases.append(b"\xff\xff\xff\xff" + struct.pack("<i", 2**31 - 1) + b"\x00" * 64)
    requests = [
        ("POST", PREDICT, {"content": c, "headers": {"Content-Type": ARROW}}) for c in cases
    ]
    codes = {a.status_code for a in quantity.together(requests)}
    assert codes <= {200, 400, 413, 415, 422} and 400 in codes


@pytest.mark.parametrize(
    ("alpha", "words"),
    [({"north": 0.5}, "alpha does not sum to 1 within 1e-06: min 0, sum 0.5; divide its weights by their sum"),
     ({"north": -1.0, "south": 2.0}, "weights are 0 or more"), ({"nowhere": 1.0}, "'nowhere'"), ({}, "weights"),
     ({"north": "1"}, "not a number"), ({"north": True}, "not a number"), ([1.0], "weights"),
     ({"(own sample)": 1.0}, "own sample"), ({"north": 1e999}, "")],
)  # fmt: skip
def test_mixtures_off_the_simplex(quantity, alpha, words):
    content = json.dumps({"alpha": alpha}).replace("Infinity", "1e999")
    answered = quantity.ask(
        "POST", "/v1/mixtures", content=content, headers={"Content-Type": "application/json"}
    )
    problem(answered, 422, words)


def test_other_types_and_methods(quantity):
    problem(quantity.post(PREDICT, content=b"a,b", headers={"Content-Type": "text/xml"}), 415)
    problem(
        quantity.post(PREDICT, content=b"x", headers={"Content-Encoding": "gzip"}),
        415,
        "compressed",
    )
    problem(quantity.ask("PUT", "/v1/targets"), 405)
    for path, methods in (
        ("/v1/targets", "GET, HEAD, POST"),
        (URL, "DELETE, GET, HEAD"),
        (PREDICT, "POST"),
        ("/v1/jobs/1/events", "GET"),
    ):
        assert quantity.ask("OPTIONS", path).headers["allow"] == methods
    problem(quantity.get("/v1/nothing"), 404)
    problem(quantity.get("/v1/targets?limit=0"), 422)
    problem(quantity.get("/v1/targets?offset=-1"), 422)
    assert (
        "access-control-allow-origin"
        not in quantity.get("/v1/targets", headers={"Origin": "http://evil"}).headers
    )


def test_too_many_requests(made):
    client = Client(made["cost"], Limits(rate=1.0, burst=5))
    answers = client.together([("GET", "/v1/targets", {}) for _ in range(9)])
    assert sorted(a.status_code for a in answers) == [200] * 5 + [429] * 4
    assert all("retry-after" in a.headers for a in answers if a.status_code == 429)
    assert client.get("/healthz", role=None).status_code == 200


def test_a_token_has_one_rate_however_its_header_is_spelt(made):
    client, token = Client(made["cost"], Limits(rate=0.001, burst=5)), TOKENS["read"]
    spelt = [f"{b}{' ' * n}{token}" for b in ("Bearer", "bearer", "BeArEr") for n in (1, 2, 3)]
    headers = [{"Authorization": one} for one in spelt]
    answers = client.together(
        [("GET", "/v1/targets", {"role": None, "headers": h}) for h in headers]
    )
    assert sorted(a.status_code for a in answers) == [200] * 5 + [429] * 4
    assert client.get("/v1/targets", role="predict").status_code == 200


def test_too_many_at_once(made):
    client = Client(made["cost"], Limits(at_once=3))
    answers = client.together([("POST", PREDICT, {"json": GOOD}) for _ in range(20)])
    codes = [a.status_code for a in answers]
    assert set(codes) == {200, 503}
    assert client.post(PREDICT, GOOD).status_code == 200


def test_an_answer_that_takes_too_long(made, monkeypatch):
    client = Client(made["cost"], Limits(seconds=0.1))
    monkeypatch.setattr(client.state.predictions, "_quick", lambda items: False)
    monkeypatch.setattr(client.state.predictions, "_work", lambda items: time.sleep(0.5))
    problem(client.post(PREDICT, GOOD), 504)


def test_what_is_unexpected_is_a_problem_without_its_words(made, monkeypatch):
    client = Client(made["cost"])

    def broken(items):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(client.state.predictions, "_work", broken)
    assert SECRET not in problem(client.post(PREDICT, GOOD), 500)["detail"]


def test_tokens_are_kept_as_digests_and_shown_once(tmp_path):
    tokens, shown = tokens_of(None, {}, tmp_path)
    assert tokens.role(f"Bearer {shown}") is Role.adapt
    kept = tmp_path / KEPT
    assert shown not in kept.read_text() and kept.stat().st_mode & 0o077 == 0
    again, nothing = tokens_of(None, {}, tmp_path)
    assert nothing is None and again.role(f"Bearer {shown}") is Role.adapt
    assert again.role("Bearer ") is None and again.role(None) is None and again.role(shown) is None
    named, _ = tokens_of(None, {"CUVEE_TOKEN": "x" * 20}, tmp_path)
    assert named.role(f"Bearer {shown}") is None and named.role(f"bearer {'x' * 20}") is Role.adapt
    file = tmp_path / "file"
    file.write_text(f"# ours\nread {'r' * 20}\n\npredict {'p' * 20}\n")
    read, _ = tokens_of(file, {"CUVEE_TOKEN": "x" * 20}, tmp_path)
    assert read.role(f"Bearer {'r' * 20}") is Role.read and read.role(f"Bearer {'x' * 20}") is None


@pytest.mark.parametrize("text", ["", "# nothing", "short", "boss " + "x" * 20, "read a b"])
def test_bad_tokens(text):
    with pytest.raises(InputError):
        Tokens.read(text)
