// `events` and `faults` of a scenario file.
#include <algorithm>
#include <array>
#include <set>

#include "trace/scenario_json.h"
#include "trace/scenario_parse.h"

namespace lockstep::trace {
namespace {

using Type = ForcedEventType;

constexpr std::uint64_t kOrdinalMax = 0xfffffffe;  // launch ordinals are 32 bit
constexpr std::uint64_t kTicksMax = std::uint64_t{1} << 31;

// What each type of entry is called and may hold beside its type and trigger.
struct EntryKind {
  std::string_view name;
  std::optional<Type> type;  // none: not built
  bool fault = false;
  std::array<std::string_view, 6> fields = {};
};

constexpr std::array<EntryKind, 24> kEntryKinds = {{
    {"cancel", Type::Cancel, false, {"request", "delay"}},
    {"disconnect", Type::Disconnect, false, {"request", "delay"}},
    {"pause_reading", {}, false, {"request"}},
    {"resume_reading", {}, false, {"request"}},
    {"admit", Type::Admit, false, {"request"}},
    {"schedule", Type::Schedule, false, {"rows"}},
    {"preempt", Type::Preempt, false, {"request", "mode"}},
    {"swap_out", {}, false, {"request", "mode"}},
    {"swap_in", {}, false, {"request", "mode"}},
    {"fork", Type::Fork, false, {"request", "as", "tokens", "back"}},
    {"beam_step", {}, false, {"request", "parents", "tokens"}},
    {"evict", Type::Evict, false, {"pool", "blocks"}},
    {"reset_prefix_cache", Type::ResetPrefixCache, false, {}},
    {"late", Type::Late, false, {"launch", "copy", "ticks"}},
    {"duplicate", Type::Duplicate, false, {"launch", "copy", "ticks"}},
    {"lost", Type::Lost, false, {"launch", "copy"}},
    {"stall", Type::Stall, false, {"stream", "ticks"}},
    {"kv_arrive", {}, false, {"request", "start", "tokens", "group", "error"}},
    {"fail", Type::Fail, true, {"what", "nth", "count", "pool"}},
    {"flip", Type::Flip, true, {"pool", "tier", "block", "offset", "bits"}},
    {"short_copy", {}, true, {"copy", "cells"}},
    {"device_lost", Type::DeviceLost, true, {}},
    {"kill", {}, true, {}},
    {"", {}, false, {}},
}};

bool has_field(const EntryKind& kind, std::string_view name) {
  return std::find(kind.fields.begin(), kind.fields.end(), name) != kind.fields.end();
}

class EntryParser {
 public:
  EntryParser(std::uint64_t token_limit, Scenario& scenario)
      : token_limit_(token_limit), scenario_(scenario) {
    for (const RequestSpec& request : scenario.requests) add_life(request.key);
  }

  void parse_list(const Field& field, bool faults) {
    const std::size_t size = field.list(kRequestsMax).size();
    for (std::size_t i = 0; i < size && !field.problems().failed(); ++i) {
      parse_entry(field.element(i), faults);
    }
  }

 private:
  bool add_life(const std::string& key) {
    return lives_.emplace(key, static_cast<std::uint32_t>(lives_.size())).second;
  }

  void parse_entry(const Field& field, bool faults);
  void parse_trigger(const Object& object, const EntryKind& kind, Trigger& trigger) const;
  void parse_when(const Field& field, Trigger& trigger) const;
  // Each reads the fields of its types.
  void parse_lives(const Object& object, const EntryKind& kind, ForcedEvent& event);
  void parse_fork(const Object& object, ForcedEvent& event);
  void parse_rows(const Field& field, ForcedEvent& event) const;
  void parse_completion(const Object& object, const EntryKind& kind, ForcedEvent& event) const;
  void parse_stall(const Object& object, ForcedEvent& event) const;
  void parse_evict(const Object& object, ForcedEvent& event) const;
  void parse_fail(const Object& object, ForcedEvent& event) const;
  void parse_flip(const Object& object, ForcedEvent& event) const;
  void parse_fields(const Object& object, const EntryKind& kind, ForcedEvent& event);

  std::optional<std::uint32_t> life(const Field& field) const;
  std::uint32_t pool(const Field& field) const;

  std::uint64_t token_limit_;
  Scenario& scenario_;
  std::map<std::string, std::uint32_t> lives_;  // requests, then forks in file order
};

std::optional<std::uint32_t> EntryParser::life(const Field& field) const {
  if (!field.require("the key of a request, or of an earlier fork")) return {};
  const std::string key = field.text("");
  const auto found = lives_.find(key);
  if (found != lives_.end()) return found->second;
  field.fail("no request or earlier fork has the key `" + key + "`");
  return {};
}

std::uint32_t EntryParser::pool(const Field& field) const {
  const std::string name = field.text("");
  for (std::size_t i = 0; i < scenario_.engine.pools.size(); ++i) {
    if (scenario_.engine.pools[i].name == name) return static_cast<std::uint32_t>(i);
  }
  field.fail("no pool has the name `" + name + "`");
  return 0;
}

void EntryParser::parse_when(const Field& field, Trigger& trigger) const {
  const Object object(field, {"request", "emitted", "computed"});
  const Field emitted = object["emitted"], computed = object["computed"];
  if (emitted.present() == computed.present()) {
    field.fail("must have one of emitted and computed");
  }
  trigger.kind = emitted.present() ? Trigger::Kind::Emitted : Trigger::Kind::Computed;
  trigger.value = (emitted.present() ? emitted : computed).integer(0, 0, kIntegerMax);
  trigger.request = life(object["request"]).value_or(0);
}

// `launch` names the tick of a launch; of late, duplicate and lost, which complete that launch, it
// is a field too, and the trigger unless another is given.
void EntryParser::parse_trigger(const Object& object, const EntryKind& kind,
                                Trigger& trigger) const {
  const Field tick = object["tick"], when = object["when"], launch = object["launch"];
  const bool completes = has_field(kind, "launch");
  const bool by_launch = launch.present() && !(completes && (tick.present() || when.present()));
  const int count = int{tick.present()} + int{when.present()} + int{by_launch};
  if (count == 1) {
    if (tick.present()) {
      trigger = {Trigger::Kind::AtTick, tick.integer(0, 0, kIntegerMax), 0};
    } else if (when.present()) {
      parse_when(when, trigger);
    } else {
      trigger = {Trigger::Kind::Launch, launch.integer(0, 0, kOrdinalMax), 0};
    }
  } else if (!completes || count > 1) {
    object.fail("must have one trigger: one of tick, when and launch");
  }
}

void EntryParser::parse_entry(const Field& field, bool faults) {
  std::vector<std::string_view> known = {"type", "tick", "when", "launch"};
  const EntryKind* kind = &kEntryKinds.back();
  if (field.value().is_object() && field.value().contains("type")) {
    const nlohmann::json& word = field.value()["type"];
    kind = std::find_if(kEntryKinds.begin(), kEntryKinds.end() - 1, [&](const EntryKind& one) {
      return word.is_string() && word.get_ref<const std::string&>() == one.name;
    });
    for (const std::string_view name : kind->fields) {
      if (!name.empty() && name != "launch") known.push_back(name);
    }
    if (kind->name.empty() || kind->fault != faults) {
      Field(field.problems(), &word, field.pointer() + "/type")
          .fail(kind->name.empty() ? "no type of event or fault is called " + shown(word)
                : faults           ? "is an event: it stands in `events`"
                                   : "is a fault: it stands in `faults`");
      return;
    }
  }
  const Object object(field, known);
  if (!object["type"].require("what happens")) return;
  ForcedEvent event;
  parse_trigger(object, *kind, event.trigger);
  if (!kind->type) {
    if (has_field(*kind, "request")) life(object["request"]);
    object["type"].not_built("= " + std::string(kind->name));
    return;
  }
  event.type = *kind->type;
  parse_fields(object, *kind, event);
  (faults ? scenario_.faults : scenario_.events).push_back(std::move(event));
}

void EntryParser::parse_fields(const Object& object, const EntryKind& kind, ForcedEvent& event) {
  switch (event.type) {
    case Type::Cancel:
    case Type::Disconnect:
    case Type::Admit:
    case Type::Preempt:
    case Type::Fork:
      parse_lives(object, kind, event);
      break;
    case Type::Schedule:
      parse_rows(object["rows"], event);
      break;
    case Type::Evict:
      parse_evict(object, event);
      break;
    case Type::Late:
    case Type::Duplicate:
    case Type::Lost:
      parse_completion(object, kind, event);
      break;
    case Type::Stall:
      parse_stall(object, event);
      break;
    case Type::Fail:
      parse_fail(object, event);
      break;
    case Type::Flip:
      parse_flip(object, event);
      break;
    case Type::ResetPrefixCache:
    case Type::DeviceLost:
      break;
  }
}

void EntryParser::parse_lives(const Object& object, const EntryKind& kind, ForcedEvent& event) {
  if (life(object["request"])) event.request = object["request"].text("");
  if (has_field(kind, "delay")) event.delay = object["delay"].integer(0, 0, kTicksMax);
  if (has_field(kind, "mode")) {
    const Field mode = object["mode"];
    if (mode.choice(0, {{"recompute", 0}, {"swap", 1}}) != 0) mode.not_built("= swap");
  }
  if (event.type == Type::Fork) parse_fork(object, event);
}

void EntryParser::parse_fork(const Object& object, ForcedEvent& event) {
  const Field as = object["as"];
  if (!as.require("the key of the child")) return;
  event.as = as.text("");
  if (!add_life(event.as)) as.fail("the key `" + event.as + "` is taken");
  event.tokens = parse_tokens(object["tokens"], token_limit_, kSequenceTokensMax);
  event.back = object["back"].count(0, 0, kSequenceTokensMax);
}

void EntryParser::parse_rows(const Field& field, ForcedEvent& event) const {
  if (!field.require("[[request key, new tokens], ...]")) return;
  std::set<std::string> keys;
  for (std::size_t i = 0; i < field.list(kRequestsMax).size(); ++i) {
    const Field row = field.element(i);
    if (row.list(2).size() != 2) {
      row.fail("must be [request key, new tokens]");
      return;
    }
    if (!life(row.element(0))) return;
    const std::string key = row.element(0).text("");
    if (!keys.insert(key).second) row.fail("the request `" + key + "` has two rows");
    event.rows.emplace_back(key, row.element(1).count(1, 1, kSequenceTokensMax));
  }
}

void EntryParser::parse_completion(const Object& object, const EntryKind& kind,
                                   ForcedEvent& event) const {
  const Field launch = object["launch"], copy = object["copy"];
  if (copy.present()) {
    copy.integer(0, 0, kOrdinalMax);
    if (launch.present()) copy.fail("stands instead of launch, not beside it");
    copy.not_built("(a copy instead of a launch)");
  } else if (launch.require("the ordinal of the launch that completes otherwise")) {
    event.launch = launch.integer(0, 0, kOrdinalMax);
  }
  if (!has_field(kind, "ticks")) return;
  const Field ticks = object["ticks"];
  if (!ticks.require("how many ticks later")) return;
  event.ticks = ticks.integer(1, event.type == Type::Late ? 1 : 0, kTicksMax);
}

void EntryParser::parse_stall(const Object& object, ForcedEvent& event) const {
  const Field stream = object["stream"], ticks = object["ticks"];
  if (stream.require("compute, h2d or d2h") &&
      stream.choice(0, {{"compute", 0}, {"h2d", 1}, {"d2h", 2}}) != 0) {
    stream.not_built("other than compute");
  }
  if (ticks.require("how long")) event.ticks = ticks.integer(1, 1, kTicksMax);
}

void EntryParser::parse_evict(const Object& object, ForcedEvent& event) const {
  const Field name = object["pool"], blocks = object["blocks"];
  event.any_pool = false;
  if (name.require("the name of a pool")) event.pool = pool(name);
  if (blocks.require("how many keys are dropped")) event.blocks = blocks.count(1, 1, kBlocksMax);
}

void EntryParser::parse_fail(const Object& object, ForcedEvent& event) const {
  const Field what = object["what"], name = object["pool"];
  constexpr int kUnbuilt = -1;
  const auto point = [](FailPoint value) { return static_cast<int>(value); };
  if (!what.require("which call fails")) return;
  const int chosen = what.choice(kUnbuilt, {{"host_alloc", point(FailPoint::HostAlloc)},
                                            {"device_alloc", point(FailPoint::DeviceAlloc)},
                                            {"block_alloc", point(FailPoint::BlockAlloc)},
                                            {"launch", point(FailPoint::Launch)},
                                            {"copy", kUnbuilt},
                                            {"disk_read", kUnbuilt},
                                            {"disk_write", kUnbuilt},
                                            {"send", kUnbuilt}});
  if (chosen == kUnbuilt) {
    what.not_built("= " + shown(what.value()));
  } else {
    event.what = static_cast<FailPoint>(chosen);
  }
  event.nth = object["nth"].count(1, 1, kOrdinalMax);
  event.count = object["count"].count(1, 1, kOrdinalMax);
  if (!name.given()) return;
  if (event.what != FailPoint::BlockAlloc) name.fail("is for block_alloc");
  event.any_pool = false;
  event.pool = pool(name);
}

void EntryParser::parse_flip(const Object& object, ForcedEvent& event) const {
  const Field name = object["pool"], tier = object["tier"], block = object["block"];
  if (tier.given()) {
    tier.choice(0, {{"host", 0}, {"disk", 1}});
    if (name.present()) tier.fail("stands instead of pool, not beside it");
    tier.not_built();
    return;
  }
  event.any_pool = false;
  if (!name.require("the name of a pool") || !block.require("which block of the pool")) return;
  event.pool = pool(name);
  std::uint32_t block_size = 1;
  for (const GroupSpec& group : scenario_.engine.groups) {
    if (group.pool == event.pool) block_size = std::max(block_size, group.block_size);
  }
  event.block = block.count(0, 0, scenario_.engine.pools[event.pool].num_blocks - 1);
  event.offset = object["offset"].count(0, 0, block_size - 1);
  event.bits = object["bits"].integer(1, 1, kIntegerMax);
}

}  // namespace

void parse_events(const Field& events, const Field& faults, std::uint64_t limit,
                  Scenario& scenario) {
  EntryParser parser(limit, scenario);
  parser.parse_list(events, false);
  parser.parse_list(faults, true);
}

}  // namespace lockstep::trace
