#include "oracles/serving_stream_test.h"

#include <algorithm>

namespace lockstep::oracles {

StreamMachine::StreamMachine(trace::Scenario scenario) : scenario_(std::move(scenario)) {
  for (const trace::PoolSpec& spec : scenario_.engine.pools) {
    Pool pool;
    for (std::uint32_t i = 0; i < spec.num_blocks; ++i) pool.queue.push_back(i);
    pools_.push_back(std::move(pool));
  }
}

RequestId StreamMachine::begin(const std::string& key, std::vector<trace::TokenId> prompt,
                               std::uint32_t max_tokens, std::uint64_t identity) {
  const RequestId id{static_cast<std::uint32_t>(lives_.size())};
  trace::LifeBegan event{id, key, key, tick, identity, prompt, 0, max_tokens, std::nullopt};
  event.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  events.push_back(event);
  Life life;
  life.identity = identity;
  life.prompt = event.prompt_tokens;
  life.tokens = std::move(prompt);
  life.most = event.prompt_tokens + max_tokens;
  life.tables.resize(groups().size());
  lives_.push_back(std::move(life));
  return id;
}

RequestId StreamMachine::fork(RequestId from, const std::string& key) {
  const RequestId id{static_cast<std::uint32_t>(lives_.size())};
  const Life parent = life(from);
  trace::LifeBegan event{id, key, key, tick, parent.identity, parent.tokens, parent.prompt,
                         16, from};
  events.push_back(event);
  lives_.push_back(parent);
  Life& child = lives_.back();
  child.most = static_cast<std::uint32_t>(child.tokens.size()) + 16;
  child.in_flight = 0;
  child.counts = {};
  child.forked = true;
  child.salt = 1000 + id.value;
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    for (const BlockId block : child.tables[g]) {
      if (block != kNoBlock) ++pool(g).count[block.value];
    }
    events.push_back(trace::BlocksShared{id, g, groups()[g].pool, child.tables[g]});
  }
  return id;
}

std::uint32_t StreamMachine::wanted(RequestId id) {
  const auto known =
      static_cast<std::uint32_t>(life(id).tokens.size()) + life(id).in_flight_samples;
  return known - std::min(known, life(id).computed);
}

void StreamMachine::admit(RequestId id) {
  Life& mine = life(id);
  mine.running = true;
  const std::uint32_t hit = longest_hit(mine);
  if (mine.counts.scheduled == 0 && !mine.forked) mine.counts.cached = hit;
  if (hit == 0) return;
  mine.computed = hit;
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    const std::uint32_t count = hit / groups()[g].block_size;
    mine.tables[g].assign(count, kNoBlock);
    for (std::uint32_t i = first_needed(g, hit); i < count; ++i) {
      mine.tables[g][i] = {pool(g).keys.at(key(mine, g, i))};
      pin(g, mine.tables[g][i].value);
    }
    events.push_back(trace::BlocksHit{id, g, groups()[g].pool, hit, mine.tables[g]});
  }
}

void StreamMachine::launch(const std::vector<Work>& work) {
  Flight flight;
  flight.launch = made_;
  for (const Work& one : work) {
    Life& mine = life(one.request);
    const auto count = one.tokens + static_cast<std::uint32_t>(one.drafts.size());
    if (!reserve(one.request, mine.computed, mine.computed + count, flight)) {
      events.push_back(trace::AllocationRefused{one.request, {1, 2}, {1, 2}});
      continue;
    }
    Part part{one.request, one.drafts, false, {}};
    part.row.request = one.request;
    part.row.first_position = mine.computed;
    part.row.sequence_length = mine.computed + count;
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool miss = i >= one.tokens && !one.drafts[i - one.tokens];
      part.row.tokens.push_back(truth(mine, mine.computed + i) + (miss ? 7 : 0));
    }
    part.row.slots.resize(groups().size());
    for (std::uint32_t g = 0; g < groups().size(); ++g) {
      part.row.tables.push_back(mine.tables[g]);
      for (std::uint32_t i = 0; i < count; ++i) add_slot(part.row, g, i, count);
      for (const BlockId block : mine.tables[g]) {
        if (block != kNoBlock) flight.uses.emplace(groups()[g].pool, block.value);
      }
    }
    const auto known = static_cast<std::uint32_t>(mine.tokens.size()) + mine.in_flight_samples;
    part.samples = mine.computed + one.tokens == known;
    mine.in_flight_samples += part.samples;
    ++mine.in_flight;
    mine.computed += count;
    mine.counts.scheduled += count;
    flight.parts.push_back(std::move(part));
  }
  if (flight.parts.empty()) return;
  trace::LaunchMade event{{made_++}, tick, 0, {}};
  for (const Part& part : flight.parts) {
    event.requests.push_back(part.request);
    event.padded_to += static_cast<std::uint32_t>(part.row.tokens.size());
  }
  events.push_back(event);
  flights_.push_back(std::move(flight));
}

void StreamMachine::run() {
  for (Flight& flight : flights_) {
    if (flight.ran) continue;
    for (const trace::CopyRan& copy : flight.copies) events.push_back(copy);
    trace::LaunchRan event{{flight.launch}, tick, {}, {}};
    for (const Part& part : flight.parts) event.rows.push_back(part.row);
    events.push_back(event);
    flight.ran = true;
    return;
  }
}

void StreamMachine::complete() {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  events.push_back(trace::LaunchCompleted{{flight.launch}, tick});
  settle();
  for (const Part& part : flight.parts) accept(part, flight.launch);
  count_pools();
}

void StreamMachine::preempt(RequestId id) {
  events.push_back(trace::RequestPreempted{id, tick});
  ++life(id).counts.preemptions;
  life(id).running = false;
  life(id).computed = 0;
  release(id);
}

void StreamMachine::abort(RequestId id) {
  events.push_back(trace::LifeAborted{id, tick});
  end(id, "abort");
}

void StreamMachine::finish() {
  std::vector<RequestId> live;
  for (std::uint32_t id = 0; id < lives_.size(); ++id) {
    if (!lives_[id].ended) live.push_back({id});
    reference({id});
  }
  count_pools();
  events.push_back(trace::RunEnded{tick, live});
}

trace::TokenId StreamMachine::truth(const Life& life, std::uint32_t position) {
  if (position < life.tokens.size()) return life.tokens[position];
  std::uint64_t z = (life.salt + life.tokens.front() + 1) * 0x9e3779b97f4a7c15u + position;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  return static_cast<trace::TokenId>((z ^ (z >> 27)) % 200);
}

std::uint32_t StreamMachine::first_needed(std::uint32_t group, std::uint32_t next) const {
  const trace::GroupSpec& spec = groups()[group];
  if (spec.type == trace::GroupType::Mamba) return next == 0 ? 0 : (next - 1) / spec.block_size;
  if (spec.type == trace::GroupType::FullAttention || next < spec.window) return 0;
  return (next - spec.window + 1) / spec.block_size;
}

std::string StreamMachine::key(const Life& mine, std::uint32_t group, std::uint32_t index) const {
  std::string text = std::to_string(group) + ":" + std::to_string(mine.identity);
  for (std::uint32_t i = 0; i < (index + 1) * groups()[group].block_size; ++i) {
    text += "," + std::to_string(mine.tokens[i]);
  }
  return text;
}

std::uint32_t StreamMachine::longest_hit(const Life& mine) {
  if (!scenario_.engine.enable_prefix_caching) return 0;
  const std::uint32_t step = groups()[0].block_size;  // the same in all groups, here
  for (std::uint32_t hit = (static_cast<std::uint32_t>(mine.tokens.size()) - 1) / step * step;
       hit > 0; hit -= step) {
    bool all = true;
    for (std::uint32_t g = 0; g < groups().size(); ++g) {
      for (std::uint32_t i = first_needed(g, hit); i < hit / step; ++i) {
        all = all && pool(g).keys.contains(key(mine, g, i));
      }
    }
    if (all) return hit;
  }
  return 0;
}

void StreamMachine::pin(std::uint32_t group, std::uint32_t block) {
  std::erase(pool(group).queue, block);
  std::erase(pool(group).reserved, block);
  ++pool(group).count[block];
}

std::uint32_t StreamMachine::take(std::uint32_t group) {
  const std::uint32_t block = pool(group).queue.front();
  pool(group).queue.pop_front();
  drop_key(groups()[group].pool, block, false);
  pool(group).count[block] = 1;
  return block;
}

void StreamMachine::drop_key(std::uint32_t index, std::uint32_t block, bool say) {
  Pool& from = pools_[index];
  const auto found = from.key_of.find(block);
  if (found == from.key_of.end()) return;
  from.keys.erase(found->second);
  from.key_of.erase(found);
  if (say) events.push_back(trace::KeyDropped{index, {block}});
}

bool StreamMachine::reserve(RequestId id, std::uint32_t first, std::uint32_t end, Flight& flight) {
  Life& mine = life(id);
  std::map<std::uint32_t, std::size_t> needed;
  const auto written = [&](std::uint32_t g) {
    const bool mamba = groups()[g].type == trace::GroupType::Mamba;
    return (mamba ? end - 1 : first) / groups()[g].block_size;
  };
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    for (std::uint32_t i = written(g); i <= (end - 1) / groups()[g].block_size; ++i) {
      const bool held = i < mine.tables[g].size();
      needed[groups()[g].pool] += held && pool(g).count[mine.tables[g][i].value] > 1;
    }
    const std::size_t blocks = (end - 1) / groups()[g].block_size + 1;
    if (blocks > mine.tables[g].size()) {
      needed[groups()[g].pool] += blocks - mine.tables[g].size();
    }
  }
  for (const auto& [index, count] : needed) {
    if (count > pools_[index].queue.size()) return false;
  }
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    std::vector<BlockId>& table = mine.tables[g];
    const std::uint32_t last = (end - 1) / groups()[g].block_size;
    for (std::uint32_t i = written(g); i < table.size() && i <= last; ++i) {
      if (pool(g).count[table[i].value] > 1) {
        replace(id, g, i, flight);
      } else {
        drop_key(groups()[g].pool, table[i].value, true);
      }
    }
    trace::BlocksTaken taken{id, g, groups()[g].pool, static_cast<std::uint32_t>(table.size()), {}};
    while (table.size() <= last) {
      table.push_back({take(g)});
      taken.blocks.push_back(table.back());
      flight.copies.push_back({groups()[g].pool, kNoBlock, table.back()});
    }
    if (!taken.blocks.empty()) events.push_back(taken);
  }
  return true;
}

void StreamMachine::replace(RequestId id, std::uint32_t g, std::uint32_t index, Flight& flight) {
  BlockId& place = life(id).tables[g][index];
  const BlockId source = place;
  place = {take(g)};
  --pool(g).count[source.value];
  flight.copies.push_back({groups()[g].pool, source, place});
  flight.uses.emplace(groups()[g].pool, source.value);
  events.push_back(
      trace::BlockReplaced{id, g, groups()[g].pool, index, source, place, {flight.launch}});
}

void StreamMachine::add_slot(trace::RanRows& row, std::uint32_t g, std::uint32_t i,
                             std::uint32_t count) {
  const std::uint32_t size = groups()[g].block_size;
  const std::uint32_t position = row.first_position + i;
  const std::int64_t block = row.tables[g][position / size].value;
  if (groups()[g].type == trace::GroupType::Mamba) {
    if (i + 1 == count) row.slots[g].push_back(block);
  } else {
    row.slots[g].push_back(block * size + position % size);
  }
}

bool StreamMachine::in_use(std::uint32_t index, std::uint32_t block) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return flight.uses.contains({index, block});
  });
}

void StreamMachine::unpin(std::uint32_t group, BlockId block) {
  Pool& from = pool(group);
  if (--from.count[block.value] > 0) return;
  const bool used = in_use(groups()[group].pool, block.value);
  if (used) {
    from.reserved.push_back(block.value);
  } else {
    from.queue.push_back(block.value);
  }
}

void StreamMachine::settle() {
  for (std::uint32_t index = 0; index < pools_.size(); ++index) {
    std::vector<std::uint32_t> still;
    for (const std::uint32_t block : pools_[index].reserved) {
      if (in_use(index, block)) {
        still.push_back(block);
      } else {
        pools_[index].queue.push_back(block);
      }
    }
    pools_[index].reserved = still;
  }
}

void StreamMachine::release(RequestId id) {
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    trace::BlocksReleased event{id, g, groups()[g].pool, {}};
    for (auto block = life(id).tables[g].rbegin(); block != life(id).tables[g].rend(); ++block) {
      if (*block != kNoBlock) event.blocks.push_back(*block);
    }
    for (const BlockId block : event.blocks) unpin(g, block);
    if (!event.blocks.empty()) events.push_back(event);
    life(id).tables[g].clear();
  }
}

void StreamMachine::accept(const Part& part, std::uint32_t launch) {
  Life& mine = life(part.request);
  --mine.in_flight;
  mine.in_flight_samples -= part.samples;
  if (mine.ended) return;
  const auto before = mine.tokens.size();
  trace::TokensAccepted event{part.request, {launch}, tick, {}, 0, 0};
  if (part.samples) {
    event.proposed = static_cast<std::uint32_t>(part.drafts.size());
    event.tokens.push_back(truth(mine, static_cast<std::uint32_t>(before)));
    for (const bool match : part.drafts) {
      if (!match || before + event.tokens.size() >= mine.most) break;
      event.tokens.push_back(truth(mine, static_cast<std::uint32_t>(before + event.tokens.size())));
      ++event.accepted;
    }
    mine.tokens.insert(mine.tokens.end(), event.tokens.begin(), event.tokens.end());
    mine.counts.proposed += event.proposed;
    mine.counts.accepted += event.accepted;
    events.push_back(event);
  }
  if (mine.running) {
    const auto rejected = static_cast<std::uint32_t>(part.drafts.size()) - event.accepted;
    mine.computed -= rejected;
    publish(part, mine, rejected);
    trim(part.request);
  }
  if (mine.tokens.size() >= mine.most) end(part.request, "length");
}

void StreamMachine::publish(const Part& part, Life& mine, std::uint32_t rejected) {
  if (!scenario_.engine.enable_prefix_caching) return;
  const auto fed =
      static_cast<std::uint32_t>(part.row.first_position + part.row.tokens.size()) - rejected;
  const std::uint32_t written = std::min(fed, static_cast<std::uint32_t>(mine.tokens.size()));
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    const std::uint32_t size = groups()[g].block_size;
    const bool mamba = groups()[g].type == trace::GroupType::Mamba;
    for (std::uint32_t i = 0; i < written / size && i < mine.tables[g].size(); ++i) {
      const BlockId block = mine.tables[g][i];
      if (block == kNoBlock || pool(g).key_of.contains(block.value)) continue;
      if (mamba && (i + 1) * size != fed) continue;
      if (part.row.tables[g].size() <= i || part.row.tables[g][i] != block) continue;
      const std::string name = key(mine, g, i);
      if (!pool(g).keys.emplace(name, block.value).second) continue;
      pool(g).key_of[block.value] = name;
      events.push_back(trace::BlockPublished{part.request, g, groups()[g].pool, i, block, name});
    }
  }
}

void StreamMachine::trim(RequestId id) {
  Life& mine = life(id);
  for (std::uint32_t g = 0; g < groups().size(); ++g) {
    if (groups()[g].type != trace::GroupType::SlidingWindow) continue;
    // Launches in flight have advanced `computed`; they still read behind it: reserved.
    std::uint32_t end =
        std::min(first_needed(g, mine.computed), static_cast<std::uint32_t>(mine.tables[g].size()));
    trace::BlocksReleased event{id, g, groups()[g].pool, {}};
    while (end-- > 0 && mine.tables[g][end] != kNoBlock) {
      event.blocks.push_back(mine.tables[g][end]);
      mine.tables[g][end] = kNoBlock;
    }
    for (const BlockId block : event.blocks) unpin(g, block);
    if (!event.blocks.empty()) events.push_back(event);
  }
}

void StreamMachine::end(RequestId id, const std::string& reason) {
  Life& mine = life(id);
  mine.ended = true;
  mine.running = false;
  mine.reason = reason;
  release(id);
  mine.counts.prompt = mine.prompt;
  mine.counts.emitted = mine.tokens.size() - mine.prompt;
  events.push_back(trace::LifeEnded{id, tick, reason, mine.counts});
}

void StreamMachine::reference(RequestId id) {
  const Life& mine = life(id);
  trace::LifeReferenced event;
  event.request = id;
  for (std::uint32_t i = mine.prompt; i < mine.most; ++i) event.tokens.push_back(truth(mine, i));
  event.finish_reason = "length";
  event.got_tokens.assign(mine.tokens.begin() + mine.prompt, mine.tokens.end());
  event.got_finish_reason = mine.reason;
  events.push_back(event);
}

void StreamMachine::count_pools() {
  for (std::uint32_t index = 0; index < pools_.size(); ++index) {
    trace::PoolCounted event{index, 0, 0, 0, 0};
    for (const std::uint32_t block : pools_[index].queue) {
      ++(pools_[index].key_of.contains(block) ? event.evictable : event.free);
    }
    for (const auto& [block, count] : pools_[index].count) event.used += count > 0;
    event.reserved = static_cast<std::uint32_t>(pools_[index].reserved.size());
    events.push_back(event);
  }
}

}  // namespace lockstep::oracles
