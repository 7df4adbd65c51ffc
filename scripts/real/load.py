"""The traces of the proofs, and what an unlimited prefix cache would hit of them, counted token by token."""

import collections
import itertools
import json
import random

TRACE_BLOCK = 512  # tokens that a hash id of Mooncake's format stands for
WEKA_BLOCK = 64


def prefixes(rows=48, seed=1):
    """Rows that go on from one another, for a closed loop of one: 3 documents of up to 5 blocks, entered at any depth."""
    rng = random.Random(seed)
    made, fresh = [], 1000
    for i in range(rows):
        document, depth = rng.randrange(3), rng.randrange(0, 5)
        ids = [document * 10 + k for k in range(depth)]
        tail = rng.choice([40, 200, 511, TRACE_BLOCK, TRACE_BLOCK])
        if rng.random() < 0.3 and depth:
            length = depth * TRACE_BLOCK  # nothing of its own: a cache may hold all of it but the end
        else:
            ids.append(fresh)
            fresh += 1
            length = depth * TRACE_BLOCK + tail
        made.append(row(i * 100, length, rng.choice([1, 2, 6, 11, 16, 23]), ids))
    made.append(dict(made[0], timestamp=rows * 100))
    return made


def steady(rows, output, every_ms):
    """Rows that share nothing."""
    return [row(i * every_ms, 300, output, [i]) for i in range(rows)]


def row(timestamp, input_length, output_length, ids):
    return {"timestamp": timestamp, "input_length": input_length, "output_length": output_length, "hash_ids": ids}


def jobs(count=6, seed=5):
    """Jobs in Weka's format, of some seconds each: a main agent that now and then has two sub-agents, which begin with the same
    instructions. Some wait for a request that took long when it was recorded: they leave in another order than recorded."""
    rng = random.Random(seed)
    return [job(rng, f"job {k}") for k in range(count)]


SLOW_S = 3  # far longer than the real server takes


def job(rng, name):
    fresh = itertools.count(1)
    now, ids, requests = 0.0, [], []
    for turn in range(rng.randrange(6, 10)):
        agent_turn(rng, fresh, now, ids, requests)
        took = requests[-1]["api_time"]
        begins = []
        if turn == 1:
            begins = [took, took + rng.uniform(0, 0.9)]
        elif turn == 3:
            requests[-1]["api_time"] = took = SLOW_S
            begins = [SLOW_S / 2, SLOW_S]
        instructions = [next(fresh) for _ in range(rng.randrange(4, 12))]
        agents = [sub_agent(rng, fresh, list(instructions), now + b + 0.01, f"{turn}.{k}") for k, b in enumerate(begins)]
        requests += agents
        now = max([now + took, *(a["t"] for a in agents)]) + rng.uniform(0.3, 0.8)
    return {"id": name, "block_size": WEKA_BLOCK, "hash_id_scope": "local", "requests": requests}


def agent_turn(rng, fresh, t, ids, requests):
    """Adds a request that goes on from all blocks so far, and has tokens of its own behind its last whole block."""
    ids += [next(fresh) for _ in range(rng.randrange(1, 9))]
    if rng.random() < 0.1:
        del ids[-len(ids) // 2 :]  # the agent has summed up what it knew
        ids += [next(fresh) for _ in range(3)]
    tokens = len(ids) * WEKA_BLOCK + rng.randrange(WEKA_BLOCK)
    took = rng.uniform(0.15, 0.4)
    requests.append({"t": round(t, 3), "type": "n", "in": tokens, "out": rng.randrange(1, 20), "hash_ids": list(ids), "api_time": round(took, 3)})


def sub_agent(rng, fresh, ids, begin, name):
    """Its requests' times count from its begin, and its own time is its end."""
    t, requests = 0.0, []
    for _ in range(rng.randrange(2, 5)):
        agent_turn(rng, fresh, t, ids, requests)
        t += requests[-1]["api_time"] + rng.uniform(0.05, 0.5)
    last = requests[-1]["t"] + requests[-1]["api_time"]
    return {"t": round(begin + last, 3), "type": "subagent", "agent_id": name, "duration_ms": round(last * 1e3), "requests": requests}


def rows_of(jobs):
    """Requests in the order in which fastreplay numbers the rows of Weka's format."""
    for one in jobs:
        for request in one["requests"]:
            yield from request.get("requests", [request])


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def symbols(one, head, tail):
    """What stands at each place of a prompt: equal symbols are equal tokens, and others differ."""
    text = [(one["hash_ids"][i // TRACE_BLOCK], i % TRACE_BLOCK) for i in range(one["input_length"] - head - tail)]
    return [("head", i) for i in range(head)] + text + [("tail", i) for i in range(tail)]


def played(request, row, play, head, tail):
    """The same of a row of Weka's format that a play sends behind its marker."""
    text = [((play, i), k) for i in ["marker", *request["hash_ids"], ("own", row)] for k in range(WEKA_BLOCK)]
    return [("head", i) for i in range(head)] + text[: WEKA_BLOCK + request["in"] - head - tail] + [("tail", i) for i in range(tail)]


def ideal(prompts, block):
    """Cached tokens of each prompt, sent one after another: whole blocks of what an earlier one had, never the whole prompt."""
    held, hits = set(), []
    for prompt in prompts:
        hits.append(found(prompt, block, held))
        held.update(keys(prompt, block))
    return hits


def found(prompt, block, held):
    """How many tokens of a prompt a cache holds that has blocks of these keys."""
    hit = 0
    for key in keys(prompt, block):
        if key not in held:
            break
        hit += 1
    return min(hit, (len(prompt) - 1) // block) * block


def keys(prompt, block):
    """One for each whole block, of its content with all before it."""
    key, made = 0, []
    for end in range(block, len(prompt) + 1, block):
        key = hash((key, tuple(prompt[end - block : end])))
        made.append(key)
    return made


def slot(prompts, head):
    """Cached tokens of each prompt with one slot of llama.cpp, sent one after another: what it begins with as the one before it did.
    The last token is always read. Before the first there was a probe, of which only the template's head is alike."""
    held, hits = prompts[0][:head], []
    for prompt in prompts:
        hit = 0
        while hit < min(len(held), len(prompt) - 1) and held[hit] == prompt[hit]:
            hit += 1
        held = prompt
        hits.append(hit)
    return hits


def limited(prompts, outputs, block, blocks):
    """The same from vLLM 0.32's block pool. A request's blocks are freed tail first when it has ended; the least recently freed one
    is taken first, and before it those without content that can be found. Equal content may lie in several blocks."""
    free = collections.OrderedDict.fromkeys(range(blocks))
    holders, content, hits = {}, {}, []
    for prompt, output in zip(prompts, outputs):
        known = keys(prompt, block)
        hits.append(found(prompt, block, holders))
        hit = hits[-1] // block
        used = [next(iter(holders[key])) for key in known[:hit]]
        for b in used:
            free.pop(b)
        written = len(prompt) + output - 1  # the last token made is never read
        for i in range(hit, -(-written // block)):
            b, _ = free.popitem(last=False)
            if (old := content.pop(b, None)) is not None:
                holders[old].pop(b)
                if not holders[old]:
                    del holders[old]
            used.append(b)
            if (i + 1) * block <= written:
                content[b] = known[i] if i < len(known) else (len(hits), i)
                holders.setdefault(content[b], collections.OrderedDict())[b] = None
        for b in reversed(used):
            free[b] = None
            if b not in content:
                free.move_to_end(b, last=False)
    return hits
