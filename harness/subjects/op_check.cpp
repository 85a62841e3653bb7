// check_operation: what running and judging a recorded operation take for granted. Operations come
// from files, too, and from anyone.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "harness/subjects/op_subject.h"
#include "kernels/weights.h"

namespace lockstep::harness {
namespace {

using model::DType;
using model::WeightRole;
using trace::Op;
using trace::RowId;
using trace::TapPoint;
using trace::TapTensor;

constexpr std::uint64_t kRowsMax = 1 << 20;
// Entries of block tables and of a RoPE table: they grow with positions, not with the file.
constexpr std::uint64_t kTableEntriesMax = 1 << 26;

bool is_number(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

class Checker {
 public:
  explicit Checker(const RecordedOperation& operation)
      : operation_(operation), call_(operation.call), config_(operation.config) {}

  // The first broken rule; empty: none.
  std::string run() {
    check_call();
    if (rule_.empty()) check_weights();
    if (rule_.empty()) check_shapes();
    return rule_;
  }

 private:
  void require(bool holds, const std::string& rule) {
    if (!holds && rule_.empty()) rule_ = rule;
  }

  // Rows, sizes and positions of every tap.
  void check_call() {
    require(call_.layer.value < config_.layer_count, "the layer is beyond the model's");
    require(config_.layers.size() == config_.layer_count, "layers do not match layer_count");
    require(call_.writes.size() == (call_.contract.op == Op::RopeKvWrite ? 3 : 1),
            "the operation writes another number of tensors");
    require(call_.reads.size() == read_count(), "the operation reads another number of tensors");
    for (const auto* taps : {&call_.reads, &call_.writes}) {
      for (const TapTensor& tap : *taps) check_tap(tap);
    }
    const std::uint64_t pages = last_position_ / operation_.block_size + 1;
    require(call_.writes.empty() || pages * call_.writes.front().rows.size() <= kTableEntriesMax,
            "positions too far for so many rows");
    require((std::uint64_t{last_position_} + 1) * config_.head_size <= kTableEntriesMax ||
                !trace::has_heads(call_.contract.op),
            "a position too far");
  }

  void check_tap(const TapTensor& tap) {
    const std::string name(trace::name(tap.point));
    require(!tap.rows.empty() && tap.rows.size() <= kRowsMax, name + " has no rows, or too many");
    require(tap.width > 0, name + " has no columns");
    require(is_number(tap.dtype) || tap.dtype == DType::I32,
            name + " is of a type that no operation reads");
    const auto row_bytes = model::storage_bytes(tap.dtype, tap.width);
    require(row_bytes && *row_bytes * tap.rows.size() == tap.bytes.size(),
            name + " has another size than its rows");
    require(tap.layer.value < config_.layer_count, name + " is of a layer beyond the model's");
    for (const RowId& row : tap.rows) {
      require(row.position < config_.context_length, name + " is beyond the context length");
      last_position_ = std::max(last_position_, row.position);
    }
    require(std::set<RowId>(tap.rows.begin(), tap.rows.end()).size() == tap.rows.size(),
            name + " holds a row twice");
  }

  std::size_t read_count() const {
    switch (call_.contract.op) {
      case Op::EmbedRows:
      case Op::RmsNorm:
      case Op::Gemv:
      case Op::Gemm:
      case Op::Argmax:
        return 1;
      case Op::Gate:
      case Op::ResidualAdd:
        return 2;
      case Op::RopeKvWrite:
      case Op::AttentionPrefill:
      case Op::AttentionDecode:
        return 3;
    }
    return 0;
  }

  // Roles in the order of RecordedOperation::weights.
  std::vector<WeightRole> needed_roles() const {
    switch (call_.contract.op) {
      case Op::EmbedRows:
        return {WeightRole::TokenEmbedding};
      case Op::RmsNorm:
      case Op::Gemv:
      case Op::Gemm: {
        const WeightRole role = call_.weight.value_or(WeightRole::TokenEmbedding);
        const bool tied = role == WeightRole::Head && config_.tied_embeddings;
        return {tied ? WeightRole::TokenEmbedding : role};
      }
      case Op::RopeKvWrite:
        if (!config_.qk_norm) return {};
        return {WeightRole::QueryNorm, WeightRole::KeyNorm};
      case Op::AttentionPrefill:
      case Op::AttentionDecode:
      case Op::Gate:
      case Op::ResidualAdd:
      case Op::Argmax:
        return {};
    }
    return {};
  }

  static bool is_norm(WeightRole role) {
    return role == WeightRole::FinalNorm || role == WeightRole::AttnNorm ||
           role == WeightRole::PostAttnNorm || role == WeightRole::FfnNorm ||
           role == WeightRole::PostFfnNorm;
  }
  static bool is_head_norm(WeightRole role) {
    return role == WeightRole::QueryNorm || role == WeightRole::KeyNorm;
  }

  void check_weights() {
    const Op op = call_.contract.op;
    const bool multiplies = op == Op::RmsNorm || op == Op::Gemv || op == Op::Gemm;
    require(!multiplies || call_.weight.has_value(), "the operation's weight is not named");
    if (op == Op::RmsNorm) require(is_norm(*call_.weight), "a norm by a matrix");
    if (op == Op::Gemv || op == Op::Gemm) {
      require(!is_norm(*call_.weight) && !is_head_norm(*call_.weight) &&
                  *call_.weight != WeightRole::TokenEmbedding,
              "a product with a vector");
    }
    const std::vector<WeightRole> roles = needed_roles();
    require(roles.size() == operation_.weights.size(), "another number of weights");
    for (std::size_t i = 0; rule_.empty() && i < roles.size(); ++i) {
      const WeightPart& part = operation_.weights[i];
      require(part.role == roles[i], "a weight of another role: " + part.name);
      const bool vector = is_norm(part.role) || is_head_norm(part.role);
      require(part.is_vector == vector, part.name + " is no matrix, or no vector");
      require(
          vector ? is_number(part.dtype) && part.rows == 1 : kernels::weight_supported(part.dtype),
          part.name + " is of a type that no kernel decodes");
      require(
          part.rows > 0 && part.rows < (1u << 31) && part.columns > 0 && part.columns < (1u << 24),
          part.name + " has no rows or columns, or too many");
      if (!rule_.empty()) return;
      const auto row_bytes = model::storage_bytes(part.dtype, part.columns);
      require(row_bytes && *row_bytes * part.rows == part.bytes.size(),
              part.name + " has another size than its shape");
      const std::uint64_t columns = is_head_norm(part.role)         ? config_.head_size
                                    : vector || op == Op::EmbedRows ? config_.hidden_size
                                                                    : call_.reads[0].width;
      require(part.columns == columns, part.name + " has another number of columns");
    }
    require(roles.size() < 2 || operation_.weights[0].name != operation_.weights[1].name,
            "two weights of one name");
  }

  void expect(const TapTensor& tap, DType dtype, std::uint64_t width) {
    require(tap.dtype == dtype && tap.width == width,
            fmt::format("{} must be {} of {}", trace::name(tap.point), model::name(dtype), width));
  }
  void same_rows(const TapTensor& a, const TapTensor& b) {
    require(a.rows == b.rows,
            fmt::format("{} and {} have other rows", trace::name(a.point), trace::name(b.point)));
  }

  void check_shapes() {
    const TapTensor& read = call_.reads.front();
    const TapTensor& write = call_.writes.front();
    const Op op = call_.contract.op;
    if (op != Op::RmsNorm || call_.weight != WeightRole::FinalNorm) same_rows(read, write);
    switch (op) {
      case Op::EmbedRows:
        expect(read, DType::I32, 1);
        expect(write, DType::F32, config_.hidden_size);
        return check_tokens(read);
      case Op::RmsNorm:
        expect(read, DType::F32, config_.hidden_size);
        expect(write, write.dtype, config_.hidden_size);
        require(is_number(write.dtype), "a norm's result is a number");
        return check_sampled(read, write);
      case Op::Gemv:
      case Op::Gemm:
        require((op == Op::Gemv) == (read.dtype == DType::F32) && is_number(read.dtype),
                "the product's operand is of another format");
        return expect(write, DType::F32, operation_.weights.front().rows);
      case Op::RopeKvWrite:
        return check_rope();
      case Op::AttentionPrefill:
      case Op::AttentionDecode:
        return check_attention();
      case Op::Gate:
        for (const TapTensor& tap : call_.reads) expect(tap, DType::F32, config_.ffn_size);
        same_rows(call_.reads[1], write);
        require(is_number(write.dtype), "a gate's result is a number");
        return expect(write, write.dtype, config_.ffn_size);
      case Op::ResidualAdd:
        for (const TapTensor& tap : call_.reads) expect(tap, DType::F32, config_.hidden_size);
        same_rows(call_.reads[1], write);
        return expect(write, DType::F32, config_.hidden_size);
      case Op::Argmax:
        expect(read, DType::F32, config_.vocab_size);
        return expect(write, DType::I32, 1);
    }
  }

  void check_tokens(const TapTensor& read) {
    for (std::size_t i = 0; rule_.empty() && i < read.rows.size(); ++i) {
      trace::TokenId token = 0;
      std::memcpy(&token, read.bytes.data() + 4 * i, 4);
      require(token < operation_.weights.front().rows, "a token beyond the rows of the embedding");
    }
  }
  void check_sampled(const TapTensor& read, const TapTensor& write) {
    const std::set<RowId> rows(read.rows.begin(), read.rows.end());
    for (const RowId& row : write.rows) require(rows.contains(row), "a norm of a row not read");
  }

  DType activation() const {
    return call_.prefill && operation_.operand_format != DType::F32 ? operation_.operand_format
                                                                    : DType::F32;
  }
  std::uint64_t query_width() const {
    return std::uint64_t{config_.head_count} * config_.head_size;
  }
  std::uint64_t cell_width() const {
    return std::uint64_t{config_.kv_head_count} * config_.head_size;
  }

  void check_rope() {
    const DType cells = operation_.operand_format;
    for (std::size_t i = 0; i < 3; ++i) {
      expect(call_.reads[i], DType::F32, i == 0 ? query_width() : cell_width());
      expect(call_.writes[i], i == 0 ? activation() : cells, i == 0 ? query_width() : cell_width());
      same_rows(call_.reads[i], call_.writes[0]);
      same_rows(call_.writes[i], call_.writes[0]);
    }
    require(call_.writes[1].point == TapPoint::KCell && call_.writes[2].point == TapPoint::VCell,
            "results in another order");
  }

  void check_attention() {
    expect(call_.reads[0], activation(), query_width());
    expect(call_.writes[0], activation(), query_width());
    require((call_.contract.op == Op::AttentionPrefill) == (activation() != DType::F32),
            "attention of another phase");
    require(call_.reads[1].point == TapPoint::KCell && call_.reads[2].point == TapPoint::VCell,
            "operands in another order");
    same_rows(call_.reads[1], call_.reads[2]);
    for (std::size_t i = 1; i < 3; ++i) {
      expect(call_.reads[i], operation_.operand_format, cell_width());
    }
    // Every cell up to the last query's is there.
    std::map<trace::RequestId, std::uint64_t> cells, count;
    for (const RowId& row : call_.reads[1].rows) {
      cells[row.request] = std::max<std::uint64_t>(cells[row.request], row.position + 1);
    }
    for (const RowId& row : call_.reads[1].rows) ++count[row.request];
    for (const RowId& row : call_.writes[0].rows) {
      require(count[row.request] == cells[row.request] && row.position < cells[row.request],
              "a cell that attention needs is missing");
    }
  }

  const RecordedOperation& operation_;
  const trace::OpCall& call_;
  const model::ModelConfig& config_;
  trace::Position last_position_ = 0;
  std::string rule_;
};

}  // namespace

base::Status check_operation(const RecordedOperation& operation, const std::string& file) {
  const std::string rule = Checker(operation).run();
  if (rule.empty()) return base::Ok{};
  return base::input_error(file, "operation: " + rule);
}

}  // namespace lockstep::harness
