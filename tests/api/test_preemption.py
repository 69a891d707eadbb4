"""A cache that holds a fraction of what runs: answers are put back for want of blocks and computed again, with drafts and
forms, and every step brings the whole nearer to its end."""

from chat_client import answer, chat
from crowd import in_threads, metric

CONTEXT, BLOCK = 1024, 16
CACHE = "2400K"  # one context and a little more
SCHEMA = {"type": "object", "required": ["a", "tags"], "additionalProperties": False,
          "properties": {"a": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": SCHEMA}}]
FIELDS = [{"guided_json": SCHEMA}, {"ignore_eos": True}, {"tools": TOOLS, "tool_choice": "required"},
          {"guided_regex": "[a-z ]{120,300}"}, {"n": 2, "ignore_eos": True}, {"grammar": 'root ::= "a" root "b" | "-"'}]


def told(body):
    """What the choices say; the ids of calls are drawn."""
    for choice in body["choices"]:
        for call in choice["message"].get("tool_calls") or []:
            del call["id"]
    return body["choices"]


def test_answers_that_are_put_back_are_the_same_and_end(start_server):
    server = start_server("--kv-cache-memory", CACHE, "--max-model-len", CONTEXT, "--block-size", BLOCK,
                          "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}')
    bodies = [chat(f"What is {at} plus {at}? " + "Think well. " * (at * 5 % 40), max_tokens=160, temperature=1, seed=at,
                   thinking_token_budget=24, **FIELDS[at % len(FIELDS)]) for at in range(12)]

    def counts():
        return {name: metric(server, name) for name in ("vllm:num_preemptions_total", "quern:prefill_tokens_total",
                                                        "vllm:generation_tokens_total", "quern:steps_total")}

    alone = [answer(server, body) for body in bodies]
    assert sum(each["timings"]["preemptions"] for each in alone) == 0
    before = counts()
    together = in_threads([lambda body=body: answer(server, body) for body in bodies])
    assert [told(each) for each in together] == [told(each) for each in alone]

    grown = {name: value - before[name] for name, value in counts().items()}
    preemptions, computed = grown["vllm:num_preemptions_total"], grown["quern:prefill_tokens_total"]
    generated = grown["vllm:generation_tokens_total"]
    assert preemptions > 0
    # each step computes a row for at least one token, and takes blocks from another only for one that goes on
    assert grown["quern:steps_total"] <= generated + computed
    assert preemptions * BLOCK <= generated + computed
    # what is computed again is bounded: put back are those that came last, and only when all others have room again
    # do they come back
    assert computed <= 2 * (generated + sum(each["usage"]["prompt_tokens"] for each in alone)), grown
