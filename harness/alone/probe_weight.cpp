// Which row and column of a weight each result is made of: products and embedding rows.
//
// All rows of the weight get the bytes of one row of the recorded weight, each with one bit of one
// byte of its own flipped; of a product the input's row i is 1 at column i and 0 elsewhere. So each
// element is one weight, exactly, and tells its place: a column that is not read is 0, an output
// that reads another row's codes has that row's values.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "harness/alone/probe.h"

namespace lockstep::harness {
namespace {

using trace::Op;
using trace::RowId;

constexpr std::uint32_t kRows = 64;         // of the weight
constexpr std::uint64_t kColumnsMax = 512;  // that are asked for: the first, the last, the flipped
constexpr std::uint64_t kWidestRow = 1 << 16;

// [rows of the weight][columns asked for]
using Matrix = std::vector<std::vector<double>>;

class WeightProbe {
 public:
  explicit WeightProbe(const RecordedOperation& operation)
      : operation_(operation), is_product_(operation.call.contract.op != Op::EmbedRows) {
    WeightPart& part = operation_.weights.front();
    const std::size_t row_bytes = part.bytes.size() / part.rows;
    const std::vector<std::byte> row(part.bytes.begin(),
                                     part.bytes.begin() + static_cast<std::ptrdiff_t>(row_bytes));
    part.rows = kRows;
    part.bytes.clear();
    for (std::uint32_t i = 0; i < kRows; ++i) {
      part.bytes.insert(part.bytes.end(), row.begin(), row.end());
      flip(part, i, row_bytes, part.bytes.data() + i * row_bytes);
    }
    choose_columns(part);
    is_product_ ? one_hot_rows() : all_tokens();
  }

  base::Result<std::string> run(const ProbeOn& on) const {
    LS_ASSIGN(const Probed probed, run_probe(operation_, on));
    const Matrix got = matrix(probed.got[0]), want = matrix(probed.expected[0].want);
    if (got == want) {
      const bool rows_differ =
          std::set<std::vector<double>>(want.begin(), want.end()).size() == kRows;
      return fmt::format("probe shows the right {}columns; the numbers differ",
                         rows_differ ? "rows and " : "");
    }
    for (const auto& hypothesis : {&WeightProbe::unread_columns, &WeightProbe::other_rows,
                                   &WeightProbe::other_columns, &WeightProbe::other_value}) {
      std::string line = (this->*hypothesis)(got, want);
      if (!line.empty()) return line;
    }
    return std::string();
  }

 private:
  // Where a row's bits are flipped: from the block in its middle on.
  static std::uint64_t flipped_block(const WeightPart& part) {
    return part.columns / model::layout(part.dtype).block_elements / 2;
  }
  // One bit of row `i`, of a place of its own. It has to outlive a rounding to bf16: of a number it
  // is the highest one of its mantissa, of a block the fourth one of a byte: of a code, or one of a
  // scale that makes it no infinity.
  static void flip(const WeightPart& part, std::size_t i, std::size_t row_bytes, std::byte* row) {
    const std::size_t block_bytes = model::layout(part.dtype).block_bytes;
    const std::size_t first = flipped_block(part) * block_bytes;
    const std::size_t number = (first + i * block_bytes) % row_bytes;
    if (part.dtype == model::DType::F32) {
      row[number + 2] ^= std::byte{0x40};
    } else if (part.dtype == model::DType::F16) {
      row[number + 1] ^= std::byte{0x02};
    } else if (part.dtype == model::DType::BF16) {
      row[number] ^= std::byte{0x40};
    } else {
      row[(first + i) % row_bytes] ^= std::byte{8};
    }
  }

  void choose_columns(const WeightPart& part) {
    const std::uint64_t middle = flipped_block(part) * model::layout(part.dtype).block_elements;
    for (std::uint64_t c = 0; c < part.columns; ++c) {
      const bool ends = c < kColumnsMax / 4 || c + kColumnsMax / 4 >= part.columns;
      const bool flipped = c >= middle && c < middle + kColumnsMax / 2;
      if (part.columns <= kColumnsMax || ends || flipped) columns_.push_back(c);
    }
  }

  // Requests of one token each: no operation here looks at positions.
  static std::vector<RowId> ids(std::size_t count) {
    std::vector<RowId> rows;
    for (std::uint32_t i = 0; i < count; ++i) rows.push_back({{i}, 0});
    return rows;
  }

  void one_hot_rows() {
    trace::OpCall& call = operation_.call;
    call.reads[0] = zeros(call.reads[0], ids(columns_.size()));
    for (std::size_t i = 0; i < columns_.size(); ++i) set(call.reads[0], i, columns_[i], 1);
    operation_.first_output = 0;
    const std::size_t element =
        call.writes[0].bytes.size() / call.writes[0].rows.size() / call.writes[0].width;
    call.writes[0].width = kRows;
    call.writes[0].rows = ids(columns_.size());
    call.writes[0].bytes.assign(kRows * columns_.size() * element, std::byte{0});
  }
  void all_tokens() {
    trace::OpCall& call = operation_.call;
    call.reads[0] = zeros(call.reads[0], ids(kRows));
    for (trace::TokenId i = 0; i < kRows; ++i) {
      std::memcpy(call.reads[0].bytes.data() + i * sizeof i, &i, sizeof i);
    }
    call.writes[0] = zeros(call.writes[0], ids(kRows));
  }

  Matrix matrix(const std::vector<double>& values) const {
    Matrix m(kRows, std::vector<double>(columns_.size()));
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        m[row][i] = is_product_ ? values[i * kRows + row]
                                : values[row * operation_.weights.front().columns + columns_[i]];
      }
    }
    return m;
  }

  const char* result() const { return is_product_ ? "output" : "token"; }

  // Columns that are 0 in every output, though the weight is not; all others are right.
  std::string unread_columns(const Matrix& got, const Matrix& want) const {
    std::vector<std::uint64_t> unread;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      bool equal = true, zero = true;
      for (std::size_t row = 0; row < kRows; ++row) {
        equal &= got[row][i] == want[row][i];
        zero &= got[row][i] == 0;
      }
      if (!equal && !zero) return {};
      if (!equal) unread.push_back(columns_[i]);
    }
    return fmt::format("{} of {} take no part in any {}", list_of(unread, "column", "columns"),
                       operation_.weights.front().columns, result());
  }

  // The only line of `lines` that has these values; lines.size(): none, or several.
  static std::size_t only(const Matrix& lines, const std::vector<double>& values) {
    std::size_t found = lines.size();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] != values) continue;
      if (found != lines.size()) return lines.size();
      found = i;
    }
    return found;
  }

  // The first two lines that hold another line's values.
  static std::string moved(const Matrix& got, const Matrix& want, const char* line,
                           const char* verb, const auto& name) {
    std::string text;
    std::size_t count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t from = got[i] == want[i] ? got.size() : only(want, got[i]);
      if (from == got.size() || from == i || ++count > 2) continue;
      if (!text.empty()) text += ", ";
      text += fmt::format("{} {} {} {}", line, name(i), verb, name(from));
    }
    if (count > 2) text += fmt::format(" (and {} more)", count - 2);
    return text;
  }
  std::string other_rows(const Matrix& got, const Matrix& want) const {
    return moved(got, want, result(), "holds the weights of row", [](std::size_t i) { return i; });
  }
  static Matrix transposed(const Matrix& matrix) {
    Matrix result(matrix.front().size(), std::vector<double>(matrix.size()));
    for (std::size_t row = 0; row < matrix.size(); ++row) {
      for (std::size_t i = 0; i < matrix[row].size(); ++i) result[i][row] = matrix[row][i];
    }
    return result;
  }
  std::string other_columns(const Matrix& got, const Matrix& want) const {
    return moved(transposed(got), transposed(want), "column", "holds the weights of column",
                 [this](std::size_t i) { return columns_[i]; });
  }
  // Nothing that has a name: the first element, and how many.
  std::string other_value(const Matrix& got, const Matrix& want) const {
    std::string first;
    std::size_t count = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (got[row][i] == want[row][i] || ++count > 1) continue;
        first = fmt::format("{} {} has {:.6g} for the weight {:.6g} of column {}", result(), row,
                            got[row][i], want[row][i], columns_[i]);
      }
    }
    return first + fmt::format(" ({} of {} weights are wrong)", count, kRows * columns_.size());
  }

  RecordedOperation operation_;
  const bool is_product_;
  std::vector<std::uint64_t> columns_;  // asked for, ascending
};

}  // namespace

base::Result<std::string> probe_weight(const RecordedOperation& operation, const ProbeOn& on) {
  if (operation.weights.front().columns > kWidestRow) return std::string();
  return WeightProbe(operation).run(on);
}

}  // namespace lockstep::harness
