// What a LedgerDriver saw, as the result document lists it: steps, snapshots, requests.
#include <algorithm>

#include "harness/subjects/ledger_driver.h"

namespace lockstep::harness {
namespace {

std::vector<std::int64_t> block_list(std::span<const trace::BlockId> blocks) {
  std::vector<std::int64_t> list;
  for (const trace::BlockId block : blocks) {
    list.push_back(block == trace::kNoBlock ? -1 : static_cast<std::int64_t>(block.value));
  }
  return list;
}

trace::PoolSnapshot pool_snapshot(const engine::BlockPool& pool) {
  trace::PoolSnapshot snapshot;
  snapshot.num_blocks = pool.block_count();
  snapshot.free = pool.free_count();
  snapshot.evictable = pool.evictable_count();
  snapshot.used = pool.used_count();
  snapshot.reserved = pool.reserved_count();
  snapshot.free_queue = pool.free_queue();
  snapshot.reserved_blocks = pool.reserved();
  for (std::uint32_t i = 0; i < pool.block_count(); ++i) {
    const trace::BlockId block{i};
    if (pool.count(block) > 0) snapshot.refcount[block] = pool.count(block);
    if (const engine::BlockKey* key = pool.key(block)) {
      snapshot.cached[block] = key->first.hex() + key->second.hex();
    }
  }
  return snapshot;
}

std::string decode(const std::vector<trace::TokenId>& tokens) {
  engine::TextStream stream;
  std::string text;
  for (const trace::TokenId token : tokens) text += stream.push(token);
  return text + stream.finish();
}

const char* state_name(const engine::Life& life) {
  if (life.phase == engine::LifePhase::Running) return "running";
  return life.preempted ? "preempted" : "waiting";
}

}  // namespace

void LedgerDriver::on_event(trace::Event event) {
  faults_.on_event(event);
  if (const auto* accepted = std::get_if<trace::TokensAccepted>(&event)) {
    changed_.push_back(accepted->request);
  } else if (const auto* over = std::get_if<trace::LifeEnded>(&event)) {
    changed_.push_back(over->request);
  }
  if (observe_ && scenario_.observe.steps) {
    if (const auto* made = std::get_if<trace::LaunchMade>(&event)) {
      made_[made->launch] = {made->tick, made->padded_to};
    } else if (const auto* copy = std::get_if<trace::CopyRan>(&event)) {
      if (copy->source != trace::kNoBlock) {
        copies_.push_back({"copy_on_write", copy->pool, copy->source, copy->destination});
      }
    } else if (const auto* ran = std::get_if<trace::LaunchRan>(&event)) {
      note_step(*ran);
    }
  }
  sink_(std::move(event));
}

void LedgerDriver::note_step(const trace::LaunchRan& ran) {
  trace::StepResult step;
  step.launch = ran.launch;
  step.tick = made_[ran.launch].first;
  step.padded_to = made_[ran.launch].second;
  step.pad_slots = ran.pad_slots;
  step.copies = std::move(copies_);
  copies_.clear();
  for (const trace::RanRows& rows : ran.rows) {
    trace::StepRow row;
    row.request = engine_.life(rows.request).spec().key;
    row.tokens = rows.tokens;
    for (std::uint32_t i = 0; i < rows.tokens.size(); ++i) {
      row.positions.push_back(rows.first_position + i);
    }
    row.slots = rows.slots;
    step.rows.push_back(std::move(row));
  }
  run_.result.steps.push_back(std::move(step));
}

void LedgerDriver::snapshot() {
  trace::Snapshot snapshot;
  snapshot.tick = tick_;
  const trace::EngineSettings& settings = scenario_.engine;
  for (std::uint32_t p = 0; p < settings.pools.size(); ++p) {
    trace::PoolSnapshot& pool = snapshot.pools[settings.pools[p].name];
    pool = pool_snapshot(engine_.cache().pool(p));
    for (std::uint32_t i = 0; i < pool.num_blocks; ++i) {
      pool.digest[trace::BlockId{i}] = executor_.digest(p, trace::BlockId{i});
    }
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const engine::Life* life = life_of(clients_[i]);
    if (life == nullptr || life->phase == engine::LifePhase::Ended) continue;
    trace::LifeSnapshot& view = snapshot.requests[run_.result.requests[i].key];
    view.state = state_name(*life);
    view.num_computed_tokens = life->computed;
    for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
      view.blocks.push_back(block_list(engine_.cache().table(life->id, g)));
    }
    view.in_flight = static_cast<std::uint32_t>(life->flights.size());
    view.emitted = life->emitted();
  }
  run_.result.snapshots.push_back(std::move(snapshot));
}

void LedgerDriver::finish_results() {
  run_.result.ticks = tick_;
  run_.result.launches = engine_.launches();
  trace::RunEnded ended{tick_, {}};
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const Client& client = clients_[i];
    trace::RequestResult& result = run_.result.requests[i];
    const engine::Life* life = life_of(client);
    if (life == nullptr) continue;
    const bool over = life->phase == engine::LifePhase::Ended;
    const bool refused = over && life->finish_reason == "refused";
    if (!over) ended.live.push_back(life->id);
    result.state = refused ? trace::LifeState::Refused
                   : over  ? trace::LifeState::Finished
                           : trace::LifeState::Live;
    result.finish_reason = client.gone ? "abort" : life->finish_reason;
    if (!client.gone) result.stop_token = life->stop_token;
    result.error_code = life->error_code;
    result.error_message = life->error_message;
    // A client that has gone keeps what it had seen.
    const std::size_t tokens = client.gone ? client.read_tokens : life->emitted();
    const auto begin = life->tokens.begin() + life->prompt_count;
    result.tokens.assign(begin, begin + static_cast<std::ptrdiff_t>(tokens));
    result.text = client.gone ? decode(result.tokens) : life->text;
    result.counts = life->counts;
    result.counts.emitted = tokens;
    // Log-probabilities and draws are those of its own tokens.
    const std::size_t own = tokens - std::min(tokens, client.inherited);
    const auto first = [own](const auto& list) {
      return list.begin() + static_cast<std::ptrdiff_t>(std::min(own, list.size()));
    };
    result.logprobs.assign(life->logprobs.begin(), first(life->logprobs));
    result.draws.assign(life->draws.begin(), first(life->draws));
  }
  sink_(ended);
}

}  // namespace lockstep::harness
