#include "harness/blocks/trace_file.h"

#include <set>

namespace lockstep::harness {
namespace {

using nlohmann::json;

class TraceReader {
 public:
  TraceReader(const std::string& path, const json& document) : path_(path), document_(document) {}

  base::Result<BlockTrace> read() {
    BlockTrace trace;
    std::uint32_t with_null = 0;
    LS_TRY(number(document_, "block_size", trace.setup.block_size));
    LS_TRY(number(document_, "window", window_));
    LS_TRY(number(document_, "num_blocks", with_null));
    LS_TRY(number(document_, "null_block", null_block_));
    if (trace.setup.block_size == 0 || window_ == 0 || with_null < 2 || null_block_ != 0) {
      return error("block_size and window must be positive, num_blocks above 1, null_block 0");
    }
    trace.setup.num_blocks = with_null - 1;
    LS_TRY(groups(trace.setup));
    const auto ops = document_.find("ops");
    if (ops == document_.end() || !ops->is_array() || ops->empty()) {
      return error("ops must be a list of operations");
    }
    for (const json& entry : *ops) {
      where_ = "/ops/" + std::to_string(trace.operations.size());
      LS_ASSIGN(RecordedOperation recorded, operation(entry, trace.setup));
      trace.operations.push_back(std::move(recorded));
    }
    return trace;
  }

 private:
  base::Error error(const std::string& rule) const {
    base::Error result = base::input_error(path_, rule);
    result.where = where_;
    return result;
  }

  base::Status number(const json& object, const char* field, std::uint32_t& value) const {
    const auto found = object.find(field);
    if (found == object.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > (1u << 24)) {
      return error(std::string(field) + " must be a number of 0 to 2^24");
    }
    value = found->get<std::uint32_t>();
    return base::Ok{};
  }

  base::Status groups(BlockSetup& setup) const {
    trace::GroupSpec full, window;
    window.type = trace::GroupType::SlidingWindow;
    window.window = window_;
    const auto kind = document_.find("kind");
    if (kind != document_.end() && *kind == "full") {
      setup.groups = {full};
    } else if (kind != document_.end() && *kind == "swa") {
      setup.groups = {window};
    } else if (kind != document_.end() && *kind == "hybrid") {
      setup.groups = {full, window};
    } else {
      return error("kind must be full, swa or hybrid");
    }
    return base::Ok{};
  }

  base::Status tokens(const json& entry, std::vector<trace::TokenId>& result) const {
    const auto found = entry.find("tokens");
    if (found == entry.end() || !found->is_array() || found->empty()) {
      return error("tokens must be a list");
    }
    for (const json& token : *found) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > 0xffffffffu) {
        return error("tokens must be token ids");
      }
      result.push_back(token.get<trace::TokenId>());
    }
    return base::Ok{};
  }

  base::Status tables(const json& entry, const BlockSetup& setup, BlockAnswer& answer) const {
    const auto found = entry.find("blocks");
    if (found == entry.end()) return error("blocks must be given");
    if (found->is_null()) return base::Ok{};
    if (!found->is_array() || found->size() != setup.groups.size()) {
      return error("blocks must be a list for each group");
    }
    for (const json& table : *found) {
      std::vector<trace::BlockId>& blocks = answer.blocks.emplace_back();
      if (!table.is_array()) return error("blocks must be lists of block ids");
      for (const json& block : table) {
        if (!block.is_number_unsigned() || block.get<std::uint64_t>() > setup.num_blocks) {
          return error("a block id must be below num_blocks");
        }
        const auto id = block.get<std::uint32_t>();
        blocks.push_back(id == null_block_ ? trace::kNoBlock : trace::BlockId{id - 1});
      }
    }
    return base::Ok{};
  }

  // An id is live from an admitted `new` to its `free`.
  base::Status live(const RecordedOperation& recorded) {
    const bool is_new = recorded.operation.kind == BlockOperation::Kind::New;
    if (is_new == live_.contains(recorded.operation.id)) {
      return error("id " + recorded.operation.id + (is_new ? " is live" : " is not live"));
    }
    const bool grows = is_new || recorded.operation.kind == BlockOperation::Kind::Step;
    if (is_new && recorded.answer.ok) live_.insert(recorded.operation.id);
    if (!grows) live_.erase(recorded.operation.id);
    return base::Ok{};
  }

  base::Result<RecordedOperation> operation(const json& entry, const BlockSetup& setup) {
    RecordedOperation recorded;
    BlockOperation& made = recorded.operation;
    if (!entry.is_object() || !entry.contains("op") || !entry["op"].is_string() ||
        !entry.contains("id") || !entry["id"].is_string()) {
      return error("must be an object with op and id");
    }
    made.id = entry["id"].get<std::string>();
    const auto op = entry["op"].get<std::string>();
    LS_TRY(number(entry, "free", recorded.answer.free));
    if (op == "free" || op == "preempt_free") {
      made.kind = op == "free" ? BlockOperation::Kind::Free : BlockOperation::Kind::Preempt;
      LS_TRY(live(recorded));
      return recorded;
    }
    if (op != "new" && op != "step") return error("op must be new, step, free or preempt_free");
    LS_TRY(number(entry, "computed", made.computed));
    if (!entry.contains("ok") || !entry["ok"].is_boolean()) return error("ok must be a boolean");
    recorded.answer.ok = entry["ok"].get<bool>();
    LS_TRY(tables(entry, setup, recorded.answer));
    if (op == "new") {
      LS_TRY(tokens(entry, made.tokens));
      LS_TRY(number(entry, "hit_tokens", recorded.answer.hit_tokens));
    } else {
      made.kind = BlockOperation::Kind::Step;
      const auto append = entry.find("append");
      if (append != entry.end() && !append->is_null()) {
        std::uint32_t token = 0;
        LS_TRY(number(entry, "append", token));
        made.append = token;
      }
    }
    LS_TRY(live(recorded));
    return recorded;
  }

  const std::string& path_;
  const json& document_;
  std::uint32_t window_ = 0, null_block_ = 0;
  std::string where_;
  std::set<std::string> live_;
};

}  // namespace

bool is_block_trace(const json& document) {
  return document.is_object() && document.contains("ops") && document.contains("null_block");
}

base::Result<BlockTrace> read_block_trace(const std::string& path, const json& document) {
  return TraceReader(path, document).read();
}

}  // namespace lockstep::harness
