// Values as the page says them: keys of JSON objects are text, so blocks are "3"; what there is not
// is null.
#include "harness/report/scenario_result.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

const char* word(trace::LifeState state) {
  switch (state) {
    case trace::LifeState::Finished:
      return "finished";
    case trace::LifeState::Refused:
      return "refused";
    case trace::LifeState::Live:
      return "live";
  }
  return "";
}

const char* word(trace::RowKind kind) {
  switch (kind) {
    case trace::RowKind::Prefill:
      return "prefill";
    case trace::RowKind::Decode:
      return "decode";
    case trace::RowKind::Verify:
      return "verify";
  }
  return "";
}

json events_json(const std::vector<trace::EventResult>& events) {
  json list = json::array();
  for (std::size_t index = 0; index < events.size(); ++index) {
    const trace::EventResult& event = events[index];
    list.push_back({{"index", index},
                    {"type", event.type},
                    {"tick", event.tick ? json(*event.tick) : json(nullptr)},
                    {"applied", event.applied},
                    {"reason", text_or_null(event.reason)}});
  }
  return list;
}

json counts_json(const trace::Counts& counts) {
  return {{"prompt", counts.prompt},     {"cached", counts.cached},
          {"external", counts.external}, {"scheduled", counts.scheduled},
          {"proposed", counts.proposed}, {"accepted", counts.accepted},
          {"emitted", counts.emitted},   {"preemptions", counts.preemptions},
          {"aborts", counts.aborts}};
}

json logprobs_json(const std::vector<trace::TokenLogprobs>& tokens) {
  json list = json::array();
  for (const trace::TokenLogprobs& token : tokens) {
    json entries = json::array();
    for (const auto& [id, value] : token.entries) {
      entries.push_back({id, std::isfinite(value) ? json(value) : json(nullptr)});
    }
    list.push_back(std::move(entries));
  }
  return list;
}

json request_json(const trace::RequestResult& request, bool wants_logprobs) {
  json stream = json::array(), draws = json::array();
  for (const trace::StreamChunk& chunk : request.stream) {
    stream.push_back({{"tick", chunk.tick}, {"tokens", chunk.tokens}, {"text", chunk.text}});
  }
  for (const trace::DrawResult& draw : request.draws) {
    draws.push_back({{"position", draw.address.position},
                     {"purpose", trace::name(draw.address.purpose)},
                     {"candidate", draw.address.candidate},
                     {"u", draw.u}});
  }
  json error = nullptr;
  if (!request.error_code.empty()) {
    error = {{"code", request.error_code}, {"message", request.error_message}};
  }
  return {{"id", request.id},
          {"state", word(request.state)},
          {"finish_reason", text_or_null(request.finish_reason)},
          {"stop_reason", request.stop_token ? json(*request.stop_token) : json(nullptr)},
          {"error", std::move(error)},
          {"tokens", request.tokens},
          {"text", request.text},
          {"counts", counts_json(request.counts)},
          {"logprobs", wants_logprobs ? logprobs_json(request.logprobs) : json(nullptr)},
          {"prompt_logprobs", nullptr},
          {"stream", std::move(stream)},
          {"draws", std::move(draws)},
          {"samples", json::array()},
          {"beams", json::array()}};
}

// A value per group, by the group's name.
json by_group(const trace::Scenario& scenario,
              const std::vector<std::vector<std::int64_t>>& values) {
  const auto& groups = scenario.engine.groups;
  LS_CHECK(values.size() <= groups.size(), "a value per group");
  json object = json::object();
  for (std::size_t group = 0; group < values.size(); ++group) {
    object[groups[group].name] = values[group];
  }
  return object;
}

json row_json(const trace::Scenario& scenario, const trace::StepRow& row) {
  return {{"request", row.request},
          {"kind", word(row.kind)},
          {"tokens", row.tokens},
          {"positions", row.positions},
          {"slots", by_group(scenario, row.slots)},
          {"sampled", row.sampled},
          {"drafts", row.drafts},
          {"accepted", row.accepted}};
}

json step_json(const trace::Scenario& scenario, const trace::StepResult& step) {
  json rows = json::array(), copies = json::array();
  for (const trace::StepRow& row : step.rows) rows.push_back(row_json(scenario, row));
  for (const trace::BlockCopy& copy : step.copies) {
    LS_CHECK(copy.pool < scenario.engine.pools.size());
    copies.push_back({{"kind", copy.kind},
                      {"pool", scenario.engine.pools[copy.pool].name},
                      {"src", copy.source.value},
                      {"dst", copy.destination.value}});
  }
  return {{"tick", step.tick},       {"launch", step.launch.value}, {"padded_to", step.padded_to},
          {"rows", std::move(rows)}, {"pad_slots", step.pad_slots}, {"copies", std::move(copies)}};
}

json ids_json(const std::vector<trace::BlockId>& blocks) {
  json list = json::array();
  for (const trace::BlockId block : blocks) list.push_back(block.value);
  return list;
}

json pool_json(const trace::PoolSnapshot& pool) {
  json refcount = json::object(), cached = json::object(), digest = json::object();
  for (const auto& [block, count] : pool.refcount) refcount[std::to_string(block.value)] = count;
  for (const auto& [block, key] : pool.cached) cached[std::to_string(block.value)] = key;
  for (const auto& [block, hash] : pool.digest) digest[std::to_string(block.value)] = hash.hex();
  return {{"num_blocks", pool.num_blocks},
          {"free", pool.free},
          {"evictable", pool.evictable},
          {"used", pool.used},
          {"reserved", pool.reserved},
          {"free_queue", ids_json(pool.free_queue)},
          {"reserved_blocks", ids_json(pool.reserved_blocks)},
          {"refcount", std::move(refcount)},
          {"cached", std::move(cached)},
          {"digest", std::move(digest)}};
}

json snapshot_json(const trace::Scenario& scenario, const trace::Snapshot& snapshot) {
  json pools = json::object(), requests = json::object();
  for (const auto& [name, pool] : snapshot.pools) pools[name] = pool_json(pool);
  for (const auto& [key, life] : snapshot.requests) {
    requests[key] = {
        {"state", life.state},         {"num_computed_tokens", life.num_computed_tokens},
        {"draft_computed_tokens", 0},  {"blocks", by_group(scenario, life.blocks)},
        {"in_flight", life.in_flight}, {"emitted", life.emitted}};
  }
  return {{"tick", snapshot.tick},
          {"pools", std::move(pools)},
          {"requests", std::move(requests)},
          {"tiers", json::object()}};
}

// Whether each life asked for log-probabilities; a fork asks as its parent does.
std::map<std::string, bool> lives_with_logprobs(const trace::Scenario& scenario) {
  std::map<std::string, bool> wants;
  for (const trace::RequestSpec& request : scenario.requests) {
    wants[request.key] = request.sampling.logprobs.has_value();
  }
  for (const trace::ForcedEvent& event : scenario.events) {
    if (event.type == trace::ForcedEventType::Fork) wants[event.as] = wants[event.request];
  }
  return wants;
}

}  // namespace

json scenario_result_json(const trace::Scenario& scenario, const trace::RunResult& result) {
  json requests = json::object(), steps = json::array(), snapshots = json::array();
  std::map<std::string, bool> wants = lives_with_logprobs(scenario);
  for (const trace::RequestResult& request : result.requests) {
    requests[request.key] = request_json(request, wants[request.key]);
  }
  for (const trace::StepResult& step : result.steps) steps.push_back(step_json(scenario, step));
  for (const trace::Snapshot& snapshot : result.snapshots) {
    snapshots.push_back(snapshot_json(scenario, snapshot));
  }
  return {{"ticks", result.ticks},
          {"launches", result.launches},
          {"events", events_json(result.events)},
          {"requests", std::move(requests)},
          {"steps", std::move(steps)},
          {"snapshots", std::move(snapshots)}};
}

}  // namespace lockstep::harness
