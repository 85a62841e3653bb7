#!/usr/bin/env python3
"""vLLM's KVCacheManager behind the protocol of docs/block_managers.md. No GPU and no model needed.

lockstep vectors --block-manager 'python3 docs/block_managers/vllm_kv_cache_manager.py'
"""
import inspect
import json
import sys

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request

init_none_hash(sha256)


def keyword(function, **values):
    """Of these arguments, those that this version of vLLM knows."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in known}


class Manager:
    def __init__(self, setup):
        size = setup["block_size"]
        shape = {"block_size": size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
        groups = []
        for number, group in enumerate(setup["groups"]):
            if group["type"] == "sliding_window":
                spec = SlidingWindowSpec(**shape, sliding_window=group["window"])
            else:
                spec = FullAttentionSpec(**shape)
            groups.append(KVCacheGroupSpec([f"layer{number}"], spec))
        config = KVCacheConfig(
            num_blocks=setup["num_blocks"] + 1,  # block 0 is vLLM's null block
            kv_cache_tensors=[],
            kv_cache_groups=groups,
        )
        self.manager = KVCacheManager(
            config,
            max_model_len=8192,
            enable_caching=True,
            **keyword(KVCacheManager.__init__, scheduler_block_size=size, hash_block_size=size),
        )
        self.hasher = get_request_block_hasher(size, sha256)
        self.requests = {}

    def free(self):
        return self.manager.block_pool.get_num_free_blocks()

    def blocks(self, name):
        return [list(table) for table in self.manager.get_block_ids(name)]

    def new(self, message):
        tokens = message["tokens"]
        request = Request(
            message["id"],
            tokens,
            SamplingParams(max_tokens=8192 - len(tokens)),
            None,
            block_hasher=self.hasher,
            **keyword(Request.__init__, eos_token_id=None),
        )
        hit_blocks, hit = self.manager.get_computed_blocks(request)[:2]
        count = min(message["computed"], len(tokens) - hit)
        if self.manager.allocate_slots(request, count, hit, hit_blocks) is None:
            return {"ok": False, "hit_tokens": hit, "blocks": None, "free": self.free()}
        request.num_computed_tokens = hit + count
        self.requests[request.request_id] = request
        blocks = self.blocks(request.request_id)
        return {"ok": True, "hit_tokens": hit, "blocks": blocks, "free": self.free()}

    def step(self, message):
        request = self.requests[message["id"]]
        if message["append"] is not None:
            request.append_output_token_ids(message["append"])
        count = min(message["computed"], request.num_tokens - request.num_computed_tokens)
        ok = self.manager.allocate_slots(request, count) is not None
        if ok:
            request.num_computed_tokens += count
        # Also of a refusal: what is out of the window has gone back.
        return {"ok": ok, "blocks": self.blocks(request.request_id), "free": self.free()}

    def answer(self, message):
        if message["op"] == "new":
            return self.new(message)
        if message["op"] == "step":
            return self.step(message)
        self.manager.free(self.requests.pop(message["id"]))  # free, preempt
        return {"free": self.free()}


def main():
    manager = None
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "setup":
            manager = Manager(message)
            reply = {"free": manager.free(), "null_block": 0}
        else:
            reply = manager.answer(message)
        print(json.dumps(reply), flush=True)


main()
