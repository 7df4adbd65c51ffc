"""The traces of the proofs, and what an unlimited prefix cache would hit of them, counted token by token."""

import collections
import json
import random

TRACE_BLOCK = 512  # tokens that a hash id of Mooncake's format stands for


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


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def symbols(one, head, tail):
    """What stands at each place of a prompt: equal symbols are equal tokens, and others differ."""
    text = [(one["hash_ids"][i // TRACE_BLOCK], i % TRACE_BLOCK) for i in range(one["input_length"] - head - tail)]
    return [("head", i) for i in range(head)] + text + [("tail", i) for i in range(tail)]


def ideal(prompts, block):
    """Cached tokens of each prompt, sent one after another: whole blocks of what an earlier one had, never the whole prompt."""
    held, hits = set(), []
    for prompt in prompts:
        blocks = [tuple(prompt[:end]) for end in range(block, len(prompt) + 1, block)]
        hit = 0
        while hit < len(blocks) and hash(blocks[hit]) in held:
            hit += 1
        held.update(hash(b) for b in blocks)
        hits.append(min(hit, (len(prompt) - 1) // block) * block)
    return hits


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
        keys = [hash(tuple(prompt[:end])) for end in range(block, len(prompt) + 1, block)]
        hit = 0
        while hit < (len(prompt) - 1) // block and keys[hit] in holders:
            hit += 1
        hits.append(hit * block)
        used = [next(iter(holders[key])) for key in keys[:hit]]
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
                content[b] = keys[i] if i < len(keys) else (len(hits), i)
                holders.setdefault(content[b], collections.OrderedDict())[b] = None
        for b in reversed(used):
            free[b] = None
            if b not in content:
                free.move_to_end(b, last=False)
    return hits
