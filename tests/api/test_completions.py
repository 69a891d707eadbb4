"""/v1/completions: prompts as text and ids, in batches, echoed, with logprobs, streamed or not."""

import json

import pytest

from chat_client import error_of

PATH = "/v1/completions"
PROMPT = "What is 12 plus 30? caf\u00e9 \U0001F600"
TOLERANCE = 2e-4


def completion(prompt=PROMPT, **fields):
    return {"model": "quern-tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, **fields}


def ask(server, prompt=PROMPT, **fields):
    response = server.post(PATH, completion(prompt, **fields))
    assert response.status == 200, response.body
    return response.json()


def chunks_of(server, prompt=PROMPT, **fields):
    response = server.post(PATH, completion(prompt, stream=True, **fields))
    assert response.status == 200, response.body
    events = response.events()
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def of_choice(chunks, index=0):
    return [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]


def joined(choices, *path):
    """Lists at the path, one after the other."""
    whole = []
    for choice in choices:
        value = choice
        for key in path:
            value = value[key] if value else None
        whole += value or []
    return whole


def test_an_answer_has_openais_shape(server):
    body = ask(server)
    assert body["object"] == "text_completion" and body["id"].startswith("cmpl-") and body["model"] == "quern-tiny"
    (choice,) = body["choices"]
    assert choice["index"] == 0 and isinstance(choice["text"], str) and choice["logprobs"] is None
    assert choice["finish_reason"] in ("stop", "length") and choice["stop_reason"] is None
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] <= 12


def test_text_and_its_ids_are_the_same_prompt(server):
    text = ask(server, return_token_ids=True)["choices"][0]
    ids = ask(server, text["prompt_token_ids"], return_token_ids=True)["choices"][0]
    assert ids == text
    (listed,) = ask(server, [text["prompt_token_ids"]], return_token_ids=True)["choices"]
    assert listed == text


def test_special_tokens_in_a_prompt_are_tokens(server):
    ids = ask(server, "<|user|>", return_token_ids=True, max_tokens=1)["choices"][0]["prompt_token_ids"]
    assert len(ids) == 1


def test_a_batch_is_answered_in_order(server):
    prompts = ["One plus one is", "The moon", "Hello"]
    together = ask(server, prompts, n=2, temperature=1.2, seed=5)
    assert [choice["index"] for choice in together["choices"]] == list(range(6))
    for at, prompt in enumerate(prompts):
        alone = ask(server, prompt, n=2, temperature=1.2, seed=5)
        assert [choice["text"] for choice in alone["choices"]] == [
            choice["text"] for choice in together["choices"][2 * at:2 * at + 2]]
    counts = [ask(server, prompt)["usage"]["prompt_tokens"] for prompt in prompts]
    assert together["usage"]["prompt_tokens"] == sum(counts)
    chunks = chunks_of(server, prompts, n=2, temperature=1.2, seed=5)
    for choice in together["choices"]:
        assert "".join(part["text"] for part in of_choice(chunks, choice["index"])) == choice["text"]


def test_echo_tells_the_prompt_first(server):
    plain, echoed = ask(server)["choices"][0], ask(server, echo=True)["choices"][0]
    assert echoed["text"] == PROMPT + plain["text"]
    chunks = of_choice(chunks_of(server, echo=True))
    assert "".join(choice["text"] for choice in chunks) == echoed["text"]


def test_echo_alone_tells_the_prompts_logprobs(server):
    body = ask(server, echo=True, logprobs=2, max_tokens=0, return_token_ids=True)
    (choice,) = body["choices"]
    assert choice["text"] == PROMPT and choice["finish_reason"] == "length" and choice["token_ids"] == []
    assert body["usage"]["completion_tokens"] == 0
    lists = choice["logprobs"]
    count = len(choice["prompt_token_ids"])
    assert {len(lists[name]) for name in lists} == {count}
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    for at in range(1, count):
        top, own = lists["top_logprobs"][at], lists["token_logprobs"][at]
        assert top[lists["tokens"][at]] == own <= 0
        assert 1 <= len(top) <= 3
    streamed = of_choice(chunks_of(server, echo=True, logprobs=2, max_tokens=0))
    assert joined(streamed, "logprobs", "tokens") == lists["tokens"]
    assert server.post(PATH, completion(max_tokens=0)).status == 400


def test_prompt_logprobs_are_those_of_the_echo(server):
    choice = ask(server, echo=True, logprobs=1, max_tokens=0, return_token_ids=True)["choices"][0]
    apart = ask(server, prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
    assert apart[0] is None
    for at, token in enumerate(choice["prompt_token_ids"][1:], 1):
        assert abs(apart[at][str(token)]["logprob"] - choice["logprobs"]["token_logprobs"][at]) < TOLERANCE


@pytest.mark.parametrize("echo", [False, True])
def test_offsets_are_where_tokens_begin(server, echo):
    choice = ask(server, echo=echo, logprobs=3, ignore_eos=True, max_tokens=20)["choices"][0]
    lists, text = choice["logprobs"], choice["text"]
    assert lists["text_offset"][0] == 0 and lists["text_offset"] == sorted(lists["text_offset"])
    whole = 0
    for token, offset in zip(lists["tokens"], lists["text_offset"]):
        if not token.startswith("bytes:") and text[offset:].startswith(token):
            whole += 1
    special = sum(token.startswith("<|") for token in lists["tokens"])
    cut = sum(token.startswith("bytes:") for token in lists["tokens"])
    assert whole + special + cut >= len(lists["tokens"])
    chunks = of_choice(chunks_of(server, echo=echo, logprobs=3, ignore_eos=True, max_tokens=20))
    for name in ("tokens", "text_offset"):
        assert joined(chunks, "logprobs", name) == lists[name]


def test_echoed_logprobs_of_several_streamed_choices(server):
    chunks = chunks_of(server, echo=True, logprobs=0, n=3, temperature=1, seed=3)
    for index in range(3):
        choices = of_choice(chunks, index)
        assert "".join(choice["text"] for choice in choices).startswith(PROMPT)
        assert joined(choices, "logprobs", "token_logprobs")[0] is None
        assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def test_a_stream_tells_its_usage(server):
    chunks = chunks_of(server, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == ask(server)["usage"]
    assert {chunk["usage"] for chunk in chunks[:-1]} == {None}
    chunks = chunks_of(server, stream_options={"continuous_usage_stats": True})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[-1] > 0


def test_stop_ends_the_text(server):
    text = ask(server, ignore_eos=True, max_tokens=24)["choices"][0]["text"]
    stop = text[len(text) // 2:][:2]
    choice = ask(server, ignore_eos=True, max_tokens=24, stop=stop)["choices"][0]
    assert choice["text"] == text[:text.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


def test_sixteen_tokens_unless_said(server):
    body = completion(ignore_eos=True)
    del body["max_tokens"]
    assert server.post(PATH, body).json()["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize("field, fields", [
    ("prompt", {"prompt": ""}), ("prompt", {"prompt": []}), ("prompt", {"prompt": None}), ("prompt", {"prompt": 5}),
    ("prompt", {"prompt": [[]]}), ("prompt", {"prompt": ["a", ""]}), ("prompt", {"prompt": ["a", [1]]}),
    ("prompt", {"prompt": [1, "a"]}), ("prompt", {"prompt": [[1], [-1]]}), ("prompt", {"prompt": [1.5]}),
    ("prompt", {"prompt": [10 ** 9]}), ("prompt", {"prompt": {"a": 1}}), ("prompt", {"prompt": ["a"] * 129}),
    ("suffix", {"suffix": "b"}), ("best_of", {"best_of": 2}), ("best_of", {"best_of": 0}), ("logprobs", {"logprobs": 21}),
    ("logprobs", {"logprobs": True}), ("echo", {"echo": 1}), ("max_tokens", {"max_tokens": 0}), ("n", {"n": 2}),
    ("stream_options", {"stream_options": {}}), ("prompt_logprobs", {"prompt_logprobs": 1, "stream": True}),
    ("prompt_logprobs", {"prompt_logprobs": 1, "echo": True, "logprobs": 2}),
    ("response_format", {"response_format": {"type": "yaml"}}), ("guided_json", {"guided_json": 1}),
    ("prompt_embeds", {"prompt_embeds": "x"}), ("min_tokens", {"min_tokens": 13}),
])
def test_what_is_wrong_is_refused_by_name(server, field, fields):
    response = server.post(PATH, completion(**{"prompt": "a", **fields}))
    assert response.status == 400, response.body
    assert error_of(response)["param"] == field


def test_a_prompt_beyond_the_context_is_refused(server):
    response = server.post(PATH, completion("word " * 200000))
    assert response.status == 400
    assert (error_of(response)["param"], error_of(response)["code"]) == ("prompt", "context_length_exceeded")
    response = server.post(PATH, completion("a", max_tokens=10 ** 9))
    assert (error_of(response)["param"], error_of(response)["code"]) == ("max_tokens", "context_length_exceeded")
    assert server.post(PATH, completion("a", model="nope")).status == 404
