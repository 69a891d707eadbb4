"""The prefix cache as clients see it: conversations, several choices, clients with a secret of their own."""

import pytest

from chat_client import answer, chat, open_stream
from crowd import in_threads, load, metric, metrics, wait_for

BLOCK = 16
DRAFTS = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}')
STORY = " ".join(f"On day {n} the miller ground {n * 13 % 47} sacks." for n in range(30))


@pytest.fixture(name="both", params=[(), DRAFTS], ids=["alone", "drafts"])
def both_fixture(start_server, request):
    """A server with the cache, and one without, which computes all that it answers."""
    details = ("--enable-prompt-tokens-details", *request.param)
    return (start_server("--block-size", BLOCK, *details),
            start_server("--block-size", BLOCK, "--no-enable-prefix-caching", *details))


def full_blocks(tokens):
    return tokens // BLOCK * BLOCK


def cached(told):
    return told["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_conversation_computes_what_is_new_alone(both):
    """Each turn knows at least the whole blocks of the prompt before it, and answers as if it had computed all."""
    server, without = both
    body, known = chat(STORY, max_tokens=24, temperature=0), 0
    for turn in range(6):
        body = {**body, **({"temperature": 1, "seed": turn} if turn % 2 else {"temperature": 0})}
        told, computed = answer(server, body), answer(without, body)
        assert told["choices"] == computed["choices"]
        assert cached(computed) == 0
        assert (cached(told) == 0) == (turn == 0)
        assert known <= cached(told) < told["usage"]["prompt_tokens"]
        known = full_blocks(told["usage"]["prompt_tokens"] - 1)
        body["messages"] = [*body["messages"], told["choices"][0]["message"],
                            {"role": "user", "content": f"And what happened on day {turn}, was it a good one?"}]


def test_choices_compute_their_prompt_once(both):
    server, without = both
    body = chat(STORY, n=4, temperature=1, seed=5, max_tokens=12)
    told = answer(server, body)
    prompt = told["usage"]["prompt_tokens"]
    assert told["choices"] == answer(without, body)["choices"]
    # each choice computes what follows the last block that all have whole
    assert metric(server, "quern:prefill_tokens_total") <= prompt + 3 * (prompt - full_blocks(prompt - 1))
    assert metric(without, "quern:prefill_tokens_total") == 4 * prompt


def test_prompts_that_begin_alike_differ_where_they_do(both):
    """The same beginning, then one word more, less or other: known up to the block in which they part."""
    server, without = both
    words = STORY.split()
    answer(server, chat(STORY, max_tokens=2, temperature=0))
    for at in (3, 60, len(words) - 1):
        for changed in (words[:at], [*words[:at], "sheep", *words[at + 1:]], [*words[:at], *words[at + 1:], "ends"]):
            body = chat(" ".join(changed), max_tokens=8, temperature=0)
            told, computed = answer(server, body), answer(without, body)
            assert told["choices"] == computed["choices"]
            assert cached(told) % BLOCK == 0 and cached(told) < told["usage"]["prompt_tokens"]
            assert cached(told) <= full_blocks(at * 8)  # no word of them has more tokens


def test_salts_never_meet_in_a_crowd(both):
    """Two clients with salts of their own and one without ask the same at once: nobody knows what another asked."""
    server, without = both
    salts = [{"cache_salt": "a"}, {"cache_salt": "b"}, {}]
    bodies = [{**chat(STORY, max_tokens=8, temperature=0), **salt} for salt in salts]
    expected = answer(without, bodies[2])["choices"]
    first = in_threads([lambda body=body: answer(server, body) for body in bodies])
    assert [cached(told) for told in first] == [0, 0, 0]
    again = in_threads([lambda body=body: answer(server, body) for body in bodies])
    assert all(told["choices"] == expected for told in first + again)
    assert all(cached(told) == full_blocks(told["usage"]["prompt_tokens"] - 1) for told in again)


def test_what_was_cut_off_is_known(both):
    """The prompt of a client that went away in the middle of its answer is of use to the next."""
    server, without = both
    connection, response = open_stream(server, chat(STORY, max_tokens=7000, ignore_eos=True))
    response.readline()
    response.readline()
    response.close()
    connection.close()
    wait_for(lambda: load(server) == (0, 0))
    body = chat(STORY, max_tokens=8, temperature=0)
    told = answer(server, body)
    assert told["choices"] == answer(without, body)["choices"]
    assert cached(told) == full_blocks(told["usage"]["prompt_tokens"] - 1)


def test_a_small_cache_forgets_and_answers_right(start_server):
    """Room for about two prompts: what is thrown out is computed again, and hits are never of what was thrown out."""
    server = start_server("--block-size", BLOCK, "--max-model-len", 1024, "--kv-cache-memory", "3M")
    without = start_server("--block-size", BLOCK, "--no-enable-prefix-caching")
    bodies = [chat(f"Tale {at}. " + STORY[:900], max_tokens=4, temperature=0) for at in (0, 1, 2, 3, 0, 1, 1, 3, 2, 0)]
    for body in bodies:
        assert answer(server, body)["choices"] == answer(without, body)["choices"]
    values = metrics(server)
    assert 0 < values[("vllm:prefix_cache_hits_total", "")] < values[("vllm:prefix_cache_queries_total", "")]
    assert values[("vllm:kv_cache_usage_perc", "")] == 0
