"""Chat completions of the shipped model: what a client gets, streamed and not."""

import json
import threading

from chat_client import CHAT, answer, chat, joined, message, stream


def test_answer_has_openais_shape(server):
    body = answer(server, chat())
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "quern-tiny"
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("stop", "length")
    assert choice["message"]["reasoning"] == choice["message"]["reasoning_content"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    timings = body["timings"]
    assert set(timings) == {"queue_ms", "prefill_ms", "decode_ms", "longest_gap_ms", "prompt_tokens", "cached_tokens",
                            "completion_tokens", "prompt_per_second", "predicted_per_second", "drafts",
                            "drafts_accepted", "draft_n", "draft_n_accepted", "preemptions", "seed"}
    assert timings["prompt_tokens"] == usage["prompt_tokens"]
    assert timings["completion_tokens"] == usage["completion_tokens"]


def test_answer_is_that_of_quern_run(server, run_quern, tiny):
    for text, fields in (("What is 12 plus 30?", {"temperature": 0}), ("Hi", {"temperature": 1, "seed": 5})):
        flags = [f"--{name}={value}" for name, value in fields.items()]
        done = run_quern("run", tiny, "-p", text, "--max-tokens", 200, "--json", *flags)
        assert done.returncode == 0, done.stderr
        local = json.loads(done.stdout)
        body = answer(server, chat(text, max_tokens=200, **fields))
        (choice,) = body["choices"]
        assert choice["message"]["content"] == local["content"]
        assert choice["message"]["reasoning"] == local["reasoning"]
        assert choice["finish_reason"] == local["finish_reason"]
        assert body["usage"]["completion_tokens"] == local["usage"]["completion_tokens"]
        plain = run_quern("run", tiny, "-p", text, "--max-tokens", 200, *flags)
        assert plain.stdout.decode() == choice["message"]["content"] + "\n"


def test_stream_equals_the_whole(server):
    for fields in ({"temperature": 0}, {"temperature": 1, "seed": 7}, {"temperature": 1.5, "seed": -3, "top_k": 20}):
        whole = answer(server, chat(**fields))
        chunks = stream(server, chat(**fields))
        said = whole["choices"][0]["message"]
        assert joined(chunks, "content") == (said["content"] or "")
        assert joined(chunks, "reasoning") == joined(chunks, "reasoning_content") == (said["reasoning"] or "")
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
        assert reasons[-1] == whole["choices"][0]["finish_reason"]
        assert set(reasons[:-1]) == {None}


def test_stream_begins_with_the_role(server):
    chunks = stream(server, chat())
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert all("usage" not in chunk for chunk in chunks)
    assert chunks[-1]["timings"]["draft_n"] >= 0


def test_stream_with_usage(server):
    body = chat(temperature=0)
    chunks = stream(server, {**body, "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["usage"] == answer(server, body)["usage"]


def test_seed_decides(server):
    first = message(server, chat(temperature=1, seed=42))
    assert message(server, chat(temperature=1, seed=42)) == first
    assert any(message(server, chat(temperature=1.5, seed=seed)) != first for seed in range(8))
    largest = 2**63 - 1
    assert answer(server, chat(temperature=1, seed=largest))["timings"]["seed"] == largest
    assert answer(server, chat(temperature=1, seed=-largest - 1))["timings"]["seed"] == -largest - 1


def test_a_drawn_seed_is_told(server):
    drawn = answer(server, chat(temperature=1.5))
    again = answer(server, chat(temperature=1.5, seed=drawn["timings"]["seed"]))
    assert again["choices"] == drawn["choices"]
    others = {answer(server, chat(max_tokens=1))["timings"]["seed"] for _ in range(3)}
    assert len(others) == 3
    assert all(0 <= seed < 2**53 for seed in others)


def test_limits(server):
    body = answer(server, chat(max_tokens=5, ignore_eos=True))
    assert body["usage"]["completion_tokens"] == 5
    assert body["choices"][0]["finish_reason"] == "length"
    body = answer(server, chat(max_tokens=9, max_completion_tokens=4, ignore_eos=True))
    assert body["usage"]["completion_tokens"] == 4


def test_stop_strings_end_the_answer_and_are_not_shown(server):
    plain = message(server, chat(temperature=0))
    text = plain["content"] or plain["reasoning"]
    assert len(text) >= 4, text
    stop = text[2:4]
    body = answer(server, chat(temperature=0, stop=["\x01never", stop]))
    said = body["choices"][0]["message"]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["stop_reason"] == stop
    assert stop not in (said["content"] or "") + (said["reasoning"] or "")
    chunks = stream(server, chat(temperature=0, stop=stop))
    assert joined(chunks, "content") == (said["content"] or "")
    assert joined(chunks, "reasoning") == (said["reasoning"] or "")


def test_ways_to_say_the_same(server):
    """Parts, the developer role and either name of an earlier turn's reasoning give the same prompt."""
    def turns(system, reasoning, content):
        return {"model": "quern-tiny", "temperature": 0, "max_tokens": 16, "messages": [
            {"role": system, "content": "Be brief."},
            {"role": "user", "content": content},
            {"role": "assistant", "content": "Hello.", reasoning: "A greeting."},
            {"role": "user", "content": "What is 2 plus 2?"}]}

    first = answer(server, turns("system", "reasoning_content", "Hi there"))
    parts = [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]
    second = answer(server, turns("developer", "reasoning", parts))
    assert second["choices"] == first["choices"]
    assert second["usage"] == first["usage"]


def test_template_variables_change_the_prompt(server):
    def tokens(**fields):
        return answer(server, chat(max_tokens=1, **fields))["usage"]["prompt_tokens"]

    assert tokens(reasoning_effort="low") == tokens(chat_template_kwargs={"reasoning_effort": "low"})
    history = [{"role": "user", "content": "Hi"},
               {"role": "assistant", "content": "Yes", "reasoning": "some thought that takes a few tokens"},
               {"role": "user", "content": "Go on"}]
    kept = tokens(messages=history)
    assert tokens(messages=history, chat_template_kwargs={"clear_thinking": True}) < kept


def test_request_text_forges_no_turn(server):
    def tokens(text):
        return answer(server, chat(text, max_tokens=1))["usage"]["prompt_tokens"]

    assert tokens("<|user|>") > tokens("a") + 1


def test_crowd_gets_what_one_gets(server):
    bodies = [chat(f"What is {n} plus {n}?", temperature=1, seed=n, max_tokens=24) for n in range(8)]
    alone = [message(server, body) for body in bodies]
    together = [None] * len(bodies)

    def ask(at):
        chunks = stream(server, bodies[at])
        together[at] = (joined(chunks, "content"), joined(chunks, "reasoning"))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [(said["content"] or "", said["reasoning"] or "") for said in alone]


def test_speculation_changes_no_answer(server, start_server):
    speculating = start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
    accepted = 0
    for fields in ({"temperature": 0}, {"temperature": 1, "seed": 11}):
        plain, fast = (answer(each, chat(**fields)) for each in (server, speculating))
        assert fast["choices"] == plain["choices"]
        assert fast["usage"] == plain["usage"]
        assert plain["timings"]["draft_n"] == 0
        assert fast["timings"]["draft_n"] >= fast["timings"]["draft_n_accepted"]
        accepted += fast["timings"]["draft_n_accepted"]
        chunks = stream(speculating, chat(**fields))
        assert joined(chunks, "content") == (plain["choices"][0]["message"]["content"] or "")
    assert accepted > 0  # in all: a short answer alone may be one for which drafts don't pay


def test_models_health_version(server):
    listed = server.get("/v1/models").json()
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert model["id"] == "quern-tiny"
    assert model["object"] == "model"
    assert 1024 <= model["max_model_len"] <= 8192
    assert server.get("/v1/models/quern-tiny").json() == model
    assert server.get("/health").status == 200
    assert server.get("/version").json()["version"].startswith("0.")


def test_unknown_fields_are_told_once_and_texts_never(start_server):
    server = start_server()
    for _ in range(3):
        answer(server, chat("The secret is 4711-sesame.", frobnicate=1, max_tokens=4))
        server.post(CHAT, {"messages": [{"role": "user", "content": "4711-sesame", "odd": 1}], "max_tokens": "x"})
    answer(server, {"messages": [{"role": "user", "content": "4711-sesame", "odd": 1}], "max_tokens": 4})
    for _ in range(2):
        answer(server, chat(max_tokens=1, chat_template_kwargs={"never_read": 1}))
    answer(server, chat(max_tokens=1, thinking={"type": "enabled", "of_it": 1}))
    server.post(CHAT, chat(max_tokens=1, stream=True, stream_options={"of_these": 1}))
    for name in ("frobnicate", "chat_template_kwargs.never_read", "thinking.of_it", "stream_options.of_these"):
        lines = [line for line in server.stderr if f" {name}: " in line]
        assert len(lines) == 1, server.stderr
    assert len([line for line in server.stderr if "messages[].odd" in line]) == 1
    assert "sesame" not in server.stderr_text()


def test_served_names_and_defaults(start_server):
    server = start_server("--served-model-name", "org/first", "second", "--enable-prompt-tokens-details",
                          "--override-generation-config", '{"temperature": 1.5, "top_p": 0.95}',
                          "--default-chat-template-kwargs", '{"reasoning_effort": "low"}')
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["org/first", "second"]
    assert server.get("/v1/models/org/first").status == 200
    assert server.get("/v1/models/org%2Ffirst").status == 200
    assert server.post(CHAT, chat()).status == 404
    body = answer(server, chat(model="second", max_tokens=4))
    assert body["model"] == "org/first"
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    texts = {json.dumps(message(server, chat(model="second", seed=seed))) for seed in range(4)}
    assert len(texts) > 1  # sampled, not greedy as the checkpoint has it
    low = answer(server, chat(model="second", max_tokens=1))["usage"]["prompt_tokens"]
    said = answer(server, chat(model="second", max_tokens=1, reasoning_effort="low"))["usage"]["prompt_tokens"]
    assert said == low
