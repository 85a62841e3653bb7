// What the attention kernels' tests share: sequences, their pages (everything else poisoned with
// NaN), and the softmax in double. Tests only.
#pragma once

#include <functional>

#include "kernels/test_device.h"

namespace lockstep::kernels {

struct AttentionShape {
  std::uint32_t head_count = 4, kv_head_count = 2, head_size = 64, page_size = 16, window = 0;
  model::DType cells = model::DType::F16;
  float scale = 0.125f;

  std::uint32_t group() const { return head_count / kv_head_count; }
  KvLayout kv() const { return {page_size, kv_head_count, head_size, cells}; }
  std::uint32_t window_start(std::uint32_t position) const {
    return window != 0 && position >= window ? position + 1 - window : 0;
  }
  std::string text() const {
    return std::string(model::name(cells)) + " heads " + std::to_string(head_count) + "/" +
           std::to_string(kv_head_count) + " of " + std::to_string(head_size) + ", pages of " +
           std::to_string(page_size) + ", window " + std::to_string(window);
  }
};

// K and V of one request, [length, kv heads, head size].
struct Sequence {
  std::uint32_t length = 0;
  std::vector<double> k = {}, v = {};
};

inline std::size_t cell_index(const AttentionShape& shape, std::uint32_t key, std::uint32_t head) {
  return (std::size_t{key} * shape.kv_head_count + head) * shape.head_size;
}

inline Sequence random_sequence(base::Prng& prng, const AttentionShape& shape,
                                std::uint32_t length) {
  const std::size_t count = std::size_t{length} * shape.kv_head_count * shape.head_size;
  return {length, random_values(prng, shape.cells, count), random_values(prng, shape.cells, count)};
}
// v small integers, exact in every format and sum; k zero.
inline Sequence integer_sequence(base::Prng& prng, const AttentionShape& shape,
                                 std::uint32_t length) {
  const std::size_t count = std::size_t{length} * shape.kv_head_count * shape.head_size;
  Sequence sequence{length, std::vector<double>(count, 0), std::vector<double>(count)};
  for (double& v : sequence.v) v = static_cast<double>(prng.below(15)) - 7;
  return sequence;
}

// Pools with the sequences' cells in pages of a seeded order; all other cells are NaN, as are cells
// of request r before keys_from[r]. Entries of the table without a page are -1.
struct Paged {
  device::Buffer k_pool, v_pool, tables;
  std::uint32_t table_stride = 0;
};
inline Paged paginate(TestDevice& device, const AttentionShape& shape,
                      const std::vector<Sequence>& sequences, std::uint64_t seed,
                      const std::vector<std::uint32_t>& keys_from = {}) {
  std::uint32_t pages = 3;  // some belong to nobody
  Paged paged;
  for (const Sequence& each : sequences) {
    const std::uint32_t needed = (each.length + shape.page_size - 1) / shape.page_size;
    pages += needed;
    paged.table_stride = std::max(paged.table_stride, needed + 1);
  }
  std::vector<std::int32_t> free_pages(pages);
  for (std::uint32_t i = 0; i < pages; ++i) free_pages[i] = static_cast<std::int32_t>(i);
  base::Prng prng(seed);
  for (std::uint32_t i = pages - 1; i > 0; --i) {
    std::swap(free_pages[i], free_pages[prng.below(i + 1)]);
  }
  const std::size_t page_cells =
      std::size_t{shape.kv_head_count} * shape.page_size * shape.head_size;
  std::vector<double> k(pages * page_cells, std::nan("")), v = k;
  std::vector<std::int32_t> tables(sequences.size() * paged.table_stride, -1);
  for (std::size_t r = 0; r < sequences.size(); ++r) {
    for (std::uint32_t key = 0; key < sequences[r].length; ++key) {
      std::int32_t& page = tables[r * paged.table_stride + key / shape.page_size];
      if (page < 0) {
        page = free_pages.back();
        free_pages.pop_back();
      }
      if (!keys_from.empty() && key < keys_from[r]) continue;
      for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
        const std::size_t to =
            static_cast<std::uint32_t>(page) * page_cells +
            (std::size_t{head} * shape.page_size + key % shape.page_size) * shape.head_size;
        const std::size_t from = cell_index(shape, key, head);
        for (std::uint32_t d = 0; d < shape.head_size; ++d) {
          k[to + d] = sequences[r].k[from + d];
          v[to + d] = sequences[r].v[from + d];
        }
      }
    }
  }
  paged.k_pool = device.upload(shape.cells, k);
  paged.v_pool = device.upload(shape.cells, v);
  paged.tables = device.upload_integers(tables);
  return paged;
}

// Scores scale q . k of one query head over keys [first, last], and sum |q k| scale beside them.
struct Scores {
  std::vector<double> s, absolute;
};
inline Scores exact_scores(const AttentionShape& shape, const Sequence& sequence, const double* q,
                           std::uint32_t kv_head, std::uint32_t first, std::uint32_t last) {
  Scores scores;
  for (std::uint32_t key = first; key <= last; ++key) {
    const double* k = &sequence.k[cell_index(shape, key, kv_head)];
    double sum = 0, absolute = 0;
    for (std::uint32_t d = 0; d < shape.head_size; ++d) {
      sum += q[d] * k[d];
      absolute += std::abs(q[d] * k[d]);
    }
    scores.s.push_back(shape.scale * sum);
    scores.absolute.push_back(shape.scale * absolute);
  }
  return scores;
}

// A needle: key `needle` gets score 2^11 * scale over all others, whose weight is then an exact
// zero.
inline void plant_needle(const AttentionShape& shape, Sequence& sequence, std::uint32_t needle) {
  for (std::uint32_t head = 0; head < shape.kv_head_count; ++head) {
    sequence.k[cell_index(shape, needle, head)] = 64;
  }
}
// The queries that it answers to: 32 in element 0 (times 64 and the scale 0.125: 256).
inline std::vector<double> needle_queries(const AttentionShape& shape, std::size_t rows) {
  std::vector<double> q(rows * shape.head_count * shape.head_size, 0);
  for (std::size_t i = 0; i < q.size(); i += shape.head_size) q[i] = 32;
  return q;
}

}  // namespace lockstep::kernels
