"""What steers an answer and what is told of its tokens: choices, penalties, biases, ends, logprobs."""

import json
import math

import pytest

from chat_client import CHAT, answer, chat, error_of, joined, message, stream
from test_eval import read_safetensors

TOLERANCE = 2e-4


def ids_of(server, **fields):
    """The prompt's ids and the answer's."""
    body = answer(server, chat(return_token_ids=True, **fields))
    return body["prompt_token_ids"], body["choices"][0]["token_ids"]


def test_token_ids_are_those_counted(server):
    body = answer(server, chat(temperature=0, return_token_ids=True))
    (choice,) = body["choices"]
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    assert len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    chunks = stream(server, chat(temperature=0, return_token_ids=True))
    assert chunks[0]["prompt_token_ids"] == body["prompt_token_ids"]
    streamed = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids", [])]
    assert streamed == choice["token_ids"]


def test_choices_draw_apart_and_are_the_same_again(server):
    body = chat("Tell me something.", n=4, temperature=1.5, seed=7, max_tokens=24)
    first = answer(server, body)
    assert [choice["index"] for choice in first["choices"]] == [0, 1, 2, 3]
    texts = [json.dumps(choice["message"]) for choice in first["choices"]]
    assert len(set(texts)) > 1
    assert answer(server, body)["choices"] == first["choices"]
    alone = answer(server, {**body, "n": 1})
    assert alone["choices"] == first["choices"][:1]
    assert first["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]
    assert first["usage"]["completion_tokens"] > alone["usage"]["completion_tokens"]


def test_streamed_choices_equal_the_whole(server):
    body = chat("Tell me something.", n=3, temperature=1.5, seed=11, max_tokens=24)
    whole = answer(server, body)
    chunks = stream(server, {**body, "stream_options": {"include_usage": True}})
    assert [chunk["choices"][0]["delta"].get("role") for chunk in chunks[:3]] == ["assistant"] * 3
    for choice in whole["choices"]:
        index = choice["index"]
        assert joined(chunks, "content", index) == (choice["message"]["content"] or "")
        assert joined(chunks, "reasoning", index) == (choice["message"]["reasoning"] or "")
        reasons = [each["finish_reason"] for chunk in chunks for each in chunk["choices"] if each["index"] == index]
        assert reasons[-1] == choice["finish_reason"]
        assert set(reasons[:-1]) == {None}
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["usage"] == whole["usage"]


def test_more_choices_than_seats_all_come(start_server):
    server = start_server("--max-num-seqs", "2")
    body = answer(server, chat(n=7, temperature=1.2, seed=1, max_tokens=8, ignore_eos=True))
    assert len(body["choices"]) == 7
    assert body["usage"]["completion_tokens"] == 7 * 8


def test_more_choices_than_there_is_room_for_are_refused(start_server):
    server = start_server("--max-num-seqs", "1", "--max-queue", "2")
    refused = server.post(CHAT, chat(n=4, temperature=1))
    assert refused.status == 400
    assert error_of(refused)["param"] == "n"
    assert len(answer(server, chat(n=3, temperature=1, max_tokens=4))["choices"]) == 3


def log_softmax(row):
    top = max(row)
    scale = top + math.log(math.fsum(math.exp(value - top) for value in row))
    return [value - scale for value in row]


@pytest.fixture(scope="module")
def measured(server, run_quern, tiny, tmp_path_factory):
    """An answer with logprobs, and by `eval logits` the log probabilities [position][token] of its tokens."""
    fields = {"temperature": 1.3, "seed": 3, "max_tokens": 24, "logprobs": True, "top_logprobs": 5,
              "prompt_logprobs": 3, "return_token_ids": True}
    body = answer(server, chat(**fields))
    folder = tmp_path_factory.mktemp("logits")
    ids = body["prompt_token_ids"] + body["choices"][0]["token_ids"]
    (folder / "ids.json").write_text(json.dumps(ids))
    done = run_quern("eval", "logits", tiny, "--ids", folder / "ids.json", "--out", folder / "out.safetensors")
    assert done.returncode == 0, done.stderr
    _, (rows, width), values = read_safetensors(folder / "out.safetensors")["logits"]
    return fields, body, [log_softmax(values[at * width:(at + 1) * width]) for at in range(rows)]


def test_logprobs_are_those_of_the_raw_distribution(measured):
    fields, body, rows = measured
    (choice,) = body["choices"]
    content = choice["logprobs"]["content"]
    assert len(content) == len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    prompt = len(body["prompt_token_ids"])
    for at, (entry, token) in enumerate(zip(content, choice["token_ids"])):
        row = rows[prompt + at - 1]
        assert abs(entry["logprob"] - row[token]) < TOLERANCE
        told = [each["logprob"] for each in entry["top_logprobs"]]
        assert len(told) == fields["top_logprobs"]
        assert told == sorted(told, reverse=True)
        best = sorted(row, reverse=True)[:fields["top_logprobs"]]
        among = row[token] >= best[-1]
        for value, expected in list(zip(told, best))[:None if among else -1]:
            assert abs(value - expected) < TOLERANCE
        assert entry["bytes"] in [each["bytes"] for each in entry["top_logprobs"]]


def test_prompt_logprobs_are_those_of_the_prompt(measured):
    fields, body, rows = measured
    told, ids = body["prompt_logprobs"], body["prompt_token_ids"]
    assert len(told) == len(ids)
    assert told[0] is None
    for at in range(1, len(ids)):
        row, own = rows[at - 1], told[at][str(ids[at])]
        assert abs(own["logprob"] - row[ids[at]]) < TOLERANCE
        assert abs(own["rank"] - sum(value >= row[ids[at]] for value in row)) <= 1  # a tie may fall either way
        assert fields["prompt_logprobs"] <= len(told[at]) <= fields["prompt_logprobs"] + 1
        assert {1, 2, 3} <= {entry["rank"] for entry in told[at].values()} | {own["rank"]}


def test_logprobs_change_no_answer_and_stream_alike(server, measured):
    fields, body, _ = measured
    plain = message(server, chat(**{name: fields[name] for name in ("temperature", "seed", "max_tokens")}))
    assert plain == body["choices"][0]["message"]
    streamed = {name: value for name, value in fields.items() if name != "prompt_logprobs"}
    chunks = stream(server, chat(**streamed))
    content = [entry for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]
               for entry in choice["logprobs"]["content"]]
    assert content == body["choices"][0]["logprobs"]["content"]


def test_bytes_of_all_tokens_make_the_text(server):
    body = answer(server, chat("Say é, 水 and 🙂.", temperature=1.8, seed=4, logprobs=True, max_tokens=64))
    (choice,) = body["choices"]
    text = b"".join(bytes(entry["bytes"]) for entry in choice["logprobs"]["content"]).decode(errors="replace")
    for part in (choice["message"]["content"], choice["message"]["reasoning"]):
        assert (part or "").strip() in text


def test_every_draft_has_its_logprobs(start_server, measured):
    fields, body, _ = measured
    server = start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')
    fast = answer(server, chat(**fields))
    assert fast["choices"] == body["choices"]
    assert fast["timings"]["drafts"] > 0


def test_a_bias_forces_and_forbids(server):
    prompt, plain = ids_of(server, temperature=0, max_tokens=8)
    _, forced = ids_of(server, temperature=1, seed=1, max_tokens=8, logit_bias={"100": 100}, ignore_eos=True)
    assert forced == [100] * 8
    _, forbidden = ids_of(server, temperature=0, max_tokens=8, logit_bias={str(plain[0]): -100})
    assert forbidden[0] != plain[0]


def test_penalties_keep_tokens_from_coming_again(server):
    fields = {"temperature": 0, "max_tokens": 96, "ignore_eos": True}
    _, plain = ids_of(server, **fields)
    for name, value in (("presence_penalty", 2), ("frequency_penalty", 2), ("repetition_penalty", 2)):
        _, penalised = ids_of(server, **fields, **{name: value})
        assert len(set(penalised)) > len(set(plain)), name
        assert ids_of(server, **fields, **{name: value})[1] == penalised
    _, off = ids_of(server, **fields, presence_penalty=0, frequency_penalty=0, repetition_penalty=1)
    assert off == plain


def test_stop_tokens_end_the_answer_and_are_told(server):
    _, plain = ids_of(server, temperature=0, max_tokens=24)
    stop = plain[5]
    body = answer(server, chat(temperature=0, max_tokens=24, stop_token_ids=[stop], return_token_ids=True))
    (choice,) = body["choices"]
    assert choice["token_ids"] == plain[:plain.index(stop) + 1]
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] == stop
    (kept,) = answer(server, chat(temperature=0, max_tokens=24, stop_token_ids=[stop], ignore_eos=True))["choices"]
    assert kept["stop_reason"] == stop


def test_no_end_before_min_tokens(server):
    plain = answer(server, chat("Hi", temperature=0, max_tokens=400))
    assert plain["choices"][0]["finish_reason"] == "stop"
    count = plain["usage"]["completion_tokens"]
    longer = answer(server, chat("Hi", temperature=0, max_tokens=400, min_tokens=count + 5))
    assert longer["usage"]["completion_tokens"] >= count + 5
    said = plain["choices"][0]["message"]
    stop = (said["content"] or said["reasoning"])[:1]
    late = answer(server, chat("Hi", temperature=0, max_tokens=40, min_tokens=30, stop=stop, ignore_eos=True))
    assert late["usage"]["completion_tokens"] >= 30


def test_repetition_guard_ends_a_loop(start_server):
    server = start_server("--repetition-guard", "4:4")
    body = answer(server, chat(temperature=0, max_tokens=1000, logit_bias={"100": 100}, ignore_eos=True))
    assert body["choices"][0]["finish_reason"] == "repetition"
    assert body["usage"]["completion_tokens"] < 400


def test_every_chunk_tells_the_usage_so_far(server):
    chunks = stream(server, chat(temperature=0, stream_options={"continuous_usage_stats": True, "include_usage": True}))
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts[0] == 0 and counts == sorted(counts) and counts[-1] > 1
    assert len({chunk["usage"]["prompt_tokens"] for chunk in chunks}) == 1
    assert chunks[-1]["choices"] == [] and chunks[-2]["choices"][0]["finish_reason"]
