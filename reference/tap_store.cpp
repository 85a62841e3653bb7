#include "reference/tap_store.h"

#include <algorithm>

#include "base/check.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference {

namespace {

using trace::TapPoint;

bool is_cell(TapPoint point) { return point == TapPoint::KCell || point == TapPoint::VCell; }

}  // namespace

void TapStore::put(const trace::TapTensor& tap, trace::LaunchIndex launch) {
  if (tap.rows.empty()) return;
  const std::size_t row_bytes = tap.bytes.size() / tap.rows.size();
  for (std::size_t i = 0; i < tap.rows.size(); ++i) {
    Request& request = requests_[tap.rows[i].request];
    if (is_cell(tap.point)) {
      put_cell(request, tap, i);
      continue;
    }
    const auto begin = tap.bytes.begin() + static_cast<std::ptrdiff_t>(i * row_bytes);
    request.rows[{tap.point, tap.layer.value}][tap.rows[i].position] = {
        tap.dtype, tap.width, launch, {begin, begin + static_cast<std::ptrdiff_t>(row_bytes)}};
  }
}

void TapStore::put_cell(Request& request, const trace::TapTensor& tap, std::size_t index) {
  const std::size_t row_bytes = tap.bytes.size() / tap.rows.size();
  Column& column = request.columns[{tap.point, tap.layer.value}];
  if (column.present.empty() || column.dtype != tap.dtype || column.width != tap.width) {
    column = {tap.dtype, tap.width, row_bytes, {}, {}, {}};
  }
  const trace::Position position = tap.rows[index].position;
  if (column.present.size() <= position) {
    column.present.resize(position + 1, false);
    column.bytes.resize((position + 1) * row_bytes);
    column.values.resize(std::size_t{position + 1} * tap.width);
  }
  column.present[position] = true;
  const std::span<const std::byte> bytes(tap.bytes.data() + index * row_bytes, row_bytes);
  std::copy(bytes.begin(), bytes.end(),
            column.bytes.begin() + static_cast<std::ptrdiff_t>(position * row_bytes));
  decode_values(tap.dtype, bytes,
                std::span(column.values).subspan(std::size_t{position} * tap.width, tap.width));
}

TapRow TapStore::find(const Source& source, trace::RowId row) const {
  const auto request = requests_.find(row.request);
  if (request == requests_.end()) return {};
  if (is_cell(source.point)) {
    const auto found = request->second.columns.find(source);
    if (found == request->second.columns.end()) return {};
    const Column& column = found->second;
    if (row.position >= column.present.size() || !column.present[row.position]) return {};
    return {column.dtype, column.width,
            std::span(column.bytes).subspan(row.position * column.row_bytes, column.row_bytes)};
  }
  const auto rows = request->second.rows.find(source);
  if (rows == request->second.rows.end()) return {};
  const auto found = rows->second.find(row.position);
  if (found == rows->second.end()) return {};
  return {found->second.dtype, found->second.width, found->second.bytes};
}

const double* TapStore::cells(const Source& source, trace::RequestId request, trace::Position first,
                              std::uint32_t count) const {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return nullptr;
  const auto at = found->second.columns.find(source);
  if (at == found->second.columns.end()) return nullptr;
  const Column& column = at->second;
  if (std::size_t{first} + count > column.present.size()) return nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!column.present[first + i]) return nullptr;
  }
  return column.values.data() + std::size_t{first} * column.width;
}

void TapStore::forget(const Source& source, trace::RowId row) {
  const auto request = requests_.find(row.request);
  if (request == requests_.end()) return;
  const auto rows = request->second.rows.find(source);
  if (rows == request->second.rows.end()) return;
  rows->second.erase(row.position);
  if (rows->second.empty()) request->second.rows.erase(rows);
}

void TapStore::forget(const Source& source, trace::RequestId request) {
  const auto found = requests_.find(request);
  if (found != requests_.end()) found->second.rows.erase(source);
}

void TapStore::forget_before(trace::LaunchIndex launch, trace::RequestId request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  for (auto& [source, rows] : found->second.rows) {
    std::erase_if(rows, [&](const auto& row) { return row.second.launch < launch; });
  }
  std::erase_if(found->second.rows, [](const auto& of_source) { return of_source.second.empty(); });
}

void TapStore::release(trace::RequestId request) { requests_.erase(request); }

std::size_t TapStore::stored_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [id, request] : requests_) {
    for (const auto& [source, rows] : request.rows) {
      for (const auto& [position, row] : rows) bytes += row.bytes.size();
    }
    for (const auto& [source, column] : request.columns) {
      bytes += column.bytes.size() + column.values.size() * sizeof(double);
    }
  }
  return bytes;
}

}  // namespace lockstep::reference
