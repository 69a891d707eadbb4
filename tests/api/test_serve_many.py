"""Many requests at once: order, reuse, deadlines, overload, and what is told of all that."""

import json
import queue
import threading

import pytest

from chat_client import CHAT, answer, chat, error_of, joined, open_stream, stream
from conftest import ROOT
from crowd import in_threads, load, metric, metrics, wait_for
from server_process import Server

LONG_PROMPT = "The quick brown fox jumps over the lazy dog, again and again. " * 24
ENDLESS = chat("Hi", max_tokens=8000, ignore_eos=True)


def test_each_gets_what_it_would_get_alone(start_server):
    server = start_server("--max-num-seqs", "6", "--speculative-config",
                          '{"method": "mtp", "num_speculative_tokens": 2}')
    bodies = []
    for at in range(18):
        fields = [{"temperature": 0}, {"temperature": 1.2, "seed": at}, {"temperature": 1, "seed": at, "n": 2},
                  {"temperature": 0.8, "seed": at, "top_p": 0.8, "presence_penalty": 1.5},
                  {"temperature": 1, "seed": at, "logprobs": True, "top_logprobs": 3},
                  {"temperature": 0, "frequency_penalty": 1, "logit_bias": {"50": 5}}][at % 6]
        bodies.append(chat(f"What is {at} plus {at}? " + "Think well. " * (at * 7 % 40), max_tokens=8 + at, **fields))
    alone = [answer(server, body)["choices"] for body in bodies]
    together = in_threads([lambda body=body: answer(server, body)["choices"] for body in bodies])
    assert together == alone


def test_load_counts_what_runs_and_waits(start_server):
    server = start_server("--max-num-seqs", "2")
    assert load(server) == (0, 0)
    streams = [open_stream(server, ENDLESS) for _ in range(3)]
    wait_for(lambda: load(server) == (2, 1))
    for connection, response in streams:
        response.close()
        connection.close()
    wait_for(lambda: load(server) == (0, 0))


def test_a_client_that_goes_frees_all_its_choices(start_server):
    server = start_server("--max-num-seqs", "4")
    for _ in range(3):
        connection, response = open_stream(server, {**ENDLESS, "n": 6, "temperature": 1})
        wait_for(lambda: load(server) == (4, 2))
        response.close()
        connection.close()
        wait_for(lambda: load(server) == (0, 0))
    assert metric(server, "vllm:request_success_total", 'finished_reason="abort"') == 18


def test_lower_priority_values_go_first(start_server):
    """With one seat, whose holder keeps it until it is told to go: so who is next does not depend on threads."""
    server = start_server("--max-num-seqs", "1", "--scheduling-policy", "priority")
    running, endless = open_stream(server, {**ENDLESS, "priority": -10})
    seated, leave = queue.Queue(), {priority: threading.Event() for priority in (5, 1, 3, -2)}

    def take_the_seat(priority):
        connection, response = open_stream(server, {**ENDLESS, "priority": priority})
        while b'"content"' not in response.readline():
            pass
        seated.put(priority)
        leave[priority].wait()
        response.close()
        connection.close()

    threads = []
    for waiting, priority in enumerate(leave, 1):
        threads.append(threading.Thread(target=take_the_seat, args=(priority,), daemon=True))
        threads[-1].start()
        wait_for(lambda count=waiting: load(server)[1] == count)
    endless.close()
    running.close()
    order = []
    for _ in threads:
        order.append(seated.get(timeout=60))
        leave[order[-1]].set()
    for thread in threads:
        thread.join()
    assert order == [-2, 1, 3, 5]


def test_priority_without_the_policy_is_told_once(start_server):
    server = start_server()
    for _ in range(3):
        answer(server, chat(max_tokens=1, priority=2))
    assert len([line for line in server.stderr if "priority" in line]) == 1


def cached(server, **fields):
    return answer(server, chat(LONG_PROMPT, max_tokens=8, temperature=0, **fields))


def test_known_beginnings_are_not_computed_again(start_server):
    server = start_server("--enable-prompt-tokens-details", "--block-size", "16")
    first, again = cached(server), cached(server)
    assert again["choices"] == first["choices"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    hit = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens"] - 32 <= hit < first["usage"]["prompt_tokens"]
    assert again["timings"]["cached_tokens"] == hit
    assert metric(server, "vllm:prefix_cache_hits_total") == hit
    assert metric(server, "vllm:prefix_cache_queries_total") == 2 * first["usage"]["prompt_tokens"]


def test_salts_share_nothing(start_server):
    server = start_server("--enable-prompt-tokens-details", "--block-size", "16")
    hits = [cached(server, **fields)["timings"]["cached_tokens"]
            for fields in ({"cache_salt": "a"}, {"cache_salt": "b"}, {}, {"cache_salt": "a"}, {"cache_salt": "b"})]
    assert hits[:3] == [0, 0, 0]
    assert hits[3] > 0 and hits[4] > 0


def test_without_prefix_caching_all_is_computed(start_server):
    server = start_server("--no-enable-prefix-caching", "--enable-prompt-tokens-details")
    assert [cached(server)["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)] == [0, 0]
    assert metric(server, "vllm:prefix_cache_queries_total") == 0


def test_a_full_queue_is_a_503_that_tells_when_to_come_again(start_server):
    server = start_server("--max-num-seqs", "2", "--max-queue", "3")
    codes = in_threads([lambda: server.post(CHAT, chat("Hi", max_tokens=200, ignore_eos=True)) for _ in range(40)])
    refused = [response for response in codes if response.status == 503]
    assert {response.status for response in codes} == {200, 503}
    assert len(refused) < 36
    for response in refused:
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert error_of(response)["code"] == "overloaded"
        assert error_of(response)["param"] is None
    assert metric(server, "quern:requests_refused_total") == len(refused)


def test_a_deadline_is_a_504(start_server):
    server = start_server()
    late = server.post(CHAT, {**ENDLESS, "timeout": 0.2})
    assert late.status == 504
    assert error_of(late)["code"] == "timeout"
    response = server.post(CHAT, {**ENDLESS, "timeout": 0.2, "stream": True})
    assert response.status == 200
    *_, error, done = response.events()
    assert json.loads(error)["error"]["code"] == "timeout"
    assert done == "[DONE]"
    assert answer(server, chat(max_tokens=4, timeout=60))["usage"]["completion_tokens"] > 0
    wait_for(lambda: load(server) == (0, 0))


def test_a_deadline_while_waiting_is_a_504(start_server):
    server = start_server("--max-num-seqs", "1")
    connection, response = open_stream(server, ENDLESS)
    late = server.post(CHAT, chat("Hi", max_tokens=2, timeout=0.1))
    assert late.status == 504
    response.close()
    connection.close()


def test_the_servers_deadline_holds_for_all(start_server):
    server = start_server("--request-timeout", "0.3")
    assert server.post(CHAT, ENDLESS).status == 504
    assert server.post(CHAT, {**ENDLESS, "timeout": 100}).status == 504


def test_metrics_move_as_they_should(start_server):
    server = start_server("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
    before = metrics(server)
    assert before[("vllm:num_requests_running", "")] == 0
    done = answer(server, chat(temperature=0, max_tokens=40))
    stopped = answer(server, chat(temperature=0, max_tokens=2, ignore_eos=True))
    wait_for(lambda: metric(server, "vllm:num_requests_running") == 0)
    after = metrics(server)
    grown = {key: value - before[key] for key, value in after.items()}
    prompts = done["usage"]["prompt_tokens"] + stopped["usage"]["prompt_tokens"]
    tokens = done["usage"]["completion_tokens"] + stopped["usage"]["completion_tokens"]
    assert grown[("vllm:prompt_tokens_total", "")] == prompts
    assert grown[("vllm:generation_tokens_total", "")] == tokens
    assert grown[("vllm:request_generation_tokens_sum", "")] == tokens
    assert grown[("vllm:request_prompt_tokens_sum", "")] == prompts
    assert grown[("vllm:request_params_max_tokens_sum", "")] == 42
    reasons = {done["choices"][0]["finish_reason"], "length"}
    for reason in reasons:
        assert grown[("vllm:request_success_total", f'finished_reason="{reason}"')] >= 1
    for name in ("vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds",
                 "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
                 "vllm:request_decode_time_seconds"):
        assert grown[(f"{name}_count", "")] == 2
        assert grown[(f"{name}_bucket", 'le="+Inf"')] == 2
    drafts = done["timings"]["drafts"] + stopped["timings"]["drafts"]
    accepted = done["timings"]["drafts_accepted"] + stopped["timings"]["drafts_accepted"]
    assert grown[("vllm:spec_decode_num_draft_tokens_total", "")] == drafts > 0
    assert grown[("vllm:spec_decode_num_accepted_tokens_total", "")] == accepted
    assert sum(value for (name, _), value in grown.items()
               if name == "vllm:spec_decode_num_accepted_tokens_per_pos_total") == accepted
    assert grown[("quern:steps_total", "")] == grown[("quern:step_seconds_count", "")] > 0
    assert 0 < grown[("quern:host_seconds_total", "")] < grown[("quern:step_seconds_sum", "")]
    assert after[("vllm:kv_cache_usage_perc", "")] == 0
    (config,) = [labels for name, labels in after if name == "vllm:cache_config_info"]
    assert 'block_size="128"' in config and 'enable_prefix_caching="True"' in config


def test_metrics_while_it_computes(start_server):
    server = start_server("--max-num-seqs", "1")
    streams = [open_stream(server, ENDLESS) for _ in range(2)]
    wait_for(lambda: metric(server, "vllm:num_requests_running") == 1 and
             metric(server, "vllm:num_requests_waiting") == 1 and metric(server, "vllm:kv_cache_usage_perc") > 0)
    for connection, response in streams:
        response.close()
        connection.close()
    wait_for(lambda: metric(server, "vllm:num_requests_waiting") == 0 and
             metric(server, "vllm:num_requests_running") == 0)


def test_a_step_that_hangs_ends_the_server(quern_bin, tiny):
    """No step takes less than the time it has: the first ends the process."""
    server = Server(quern_bin, tiny, ("--step-timeout", "0.001", "--max-num-batched-tokens", "8192",
                                      "--no-enable-prefix-caching"), None, ROOT)
    server.wait_until_ready()
    with pytest.raises(OSError):
        for _ in range(100):
            server.post(CHAT, chat(LONG_PROMPT, max_tokens=1))
    complaint = server.stop()
    assert "exit code: 5" in complaint and "--step-timeout" in complaint


def test_kv_store_outlives_the_server(start_server, tmp_path):
    flags = ("--kv-store", tmp_path / "kv", "--block-size", "16")
    first = start_server(*flags)
    told = cached(first)
    assert first.stop() is None
    second = start_server(*flags)
    again = cached(second)
    assert again["choices"] == told["choices"]
    assert again["timings"]["cached_tokens"] >= told["usage"]["prompt_tokens"] - 32
    assert metric(second, "quern:kv_store_hits_total") == again["timings"]["cached_tokens"]


def test_small_cache_preempts_and_answers_all(start_server):
    """Room for little more than two of the answers: the others are put back, and still get what they would alone."""
    server = start_server("--max-model-len", "512", "--block-size", "16", "--kv-cache-memory", "2M")
    bodies = [chat(f"Count from {n}.", temperature=1, seed=n, max_tokens=300, ignore_eos=True) for n in range(6)]
    alone = [answer(server, body)["choices"] for body in bodies]
    for _ in range(20):  # until enough of them met: a busy machine may start one after the other
        chunks = in_threads([lambda body=body: stream(server, body) for body in bodies])
        for choices, streamed in zip(alone, chunks):
            assert joined(streamed, "content") == (choices[0]["message"]["content"] or "")
            assert joined(streamed, "reasoning") == (choices[0]["message"]["reasoning"] or "")
        if metric(server, "vllm:num_preemptions_total") > 0:
            return
    raise AssertionError("nothing was ever put back")
