#!/usr/bin/env python3
"""A block manager of one screen, to copy from: full attention, no prefix cache.

lockstep vectors --block-manager 'python3 docs/block_managers/simple.py'
The protocol is described in docs/block_managers.md.
"""
import json
import sys


class Manager:
    def __init__(self, setup):
        self.block_size = setup["block_size"]
        self.groups = len(setup["groups"])
        self.free_blocks = list(range(setup["num_blocks"]))
        self.tables = {}  # id -> a table for each group
        self.tokens = {}  # id -> [known, computed]

    def grow(self, name, computed):
        """Room for `computed` more positions; False: too few blocks, and nothing changed."""
        known, done = self.tokens[name]
        end = min(known, done + computed)
        entries = -(-end // self.block_size)
        tables = self.tables[name]
        if sum(max(0, entries - len(table)) for table in tables) > len(self.free_blocks):
            return False
        for table in tables:
            while len(table) < entries:
                table.append(self.free_blocks.pop(0))
        self.tokens[name][1] = end
        return True

    def give_back(self, name):
        for table in self.tables.pop(name):
            self.free_blocks.extend(reversed(table))
        del self.tokens[name]

    def answer(self, request):
        name, op = request["id"], request["op"]
        if op == "new":
            self.tables[name] = [[] for _ in range(self.groups)]
            self.tokens[name] = [len(request["tokens"]), 0]
        if op == "step" and request["append"] is not None:
            self.tokens[name][0] += 1
        if op in ("new", "step"):
            ok = self.grow(name, request["computed"])
            blocks = [list(table) for table in self.tables[name]]
            if op == "new" and not ok:
                blocks = None
                self.give_back(name)
            return {"ok": ok, "hit_tokens": 0, "blocks": blocks, "free": len(self.free_blocks)}
        self.give_back(name)
        return {"free": len(self.free_blocks)}


manager = None
for line in sys.stdin:
    message = json.loads(line)
    if message["op"] == "setup":
        manager = Manager(message)
        reply = {"free": len(manager.free_blocks)}
    else:
        reply = manager.answer(message)
    print(json.dumps(reply), flush=True)
