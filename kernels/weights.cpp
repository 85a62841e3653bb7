// Repacking of weight matrices: file rows <-> tiles of 8 outputs (layout: kernels/weights.h).
//
// One row at a time is split into codes (a byte a weight) and scales, and eight rows' codes are put
// into the fields of words; unpack goes the same way back. Whole numbers only: no value is decoded.
#include "kernels/weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace lockstep::kernels {
namespace {

using model::DType;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

constexpr uint32_t kOutputs = kTileOutputs;

uint32_t slot_count(uint32_t columns) {
  return columns / kSlotColumns + (columns % kSlotColumns != 0 ? 1 : 0);
}

uint32_t load_word(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
void store_word(uint8_t* to, uint32_t word) { std::memcpy(to, &word, sizeof word); }

// Codes of a tile, a byte each: output o's from data + o * stride on, filled up to whole slots.
struct Codes {
  uint8_t* data;
  uint64_t stride;
  uint8_t* row(uint32_t output) const { return data + output * stride; }
  // The 4 codes of a slot, column i in byte i.
  uint32_t slot(uint32_t output, uint64_t s) const {
    return load_word(data + output * stride + s * kSlotColumns);
  }
  void put(uint32_t output, uint64_t s, uint32_t four) const {
    store_word(data + output * stride + s * kSlotColumns, four);
  }
};
uint32_t byte_of(uint32_t word, uint32_t i) { return word >> (8 * i) & 0xff; }

// Rows of 4 bytes to columns.
void transpose(uint32_t (&words)[4]) {
  const uint32_t low01 = (words[0] & 0x00ff00ff) | (words[1] & 0x00ff00ff) << 8;
  const uint32_t high01 = (words[0] >> 8 & 0x00ff00ff) | (words[1] & 0xff00ff00);
  const uint32_t low23 = (words[2] & 0x00ff00ff) | (words[3] & 0x00ff00ff) << 8;
  const uint32_t high23 = (words[2] >> 8 & 0x00ff00ff) | (words[3] & 0xff00ff00);
  words[0] = (low01 & 0xffff) | low23 << 16;
  words[2] = low01 >> 16 | (low23 & 0xffff0000);
  words[1] = (high01 & 0xffff) | high23 << 16;
  words[3] = high01 >> 16 | (high23 & 0xffff0000);
}

// Fields of words. pack*: codes of all slots -> quants planes; unpack*: back.

void pack4(const Codes& codes, uint32_t slots, uint8_t* plane) {
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[4];
    for (uint32_t p = 0; p < 4; ++p) {
      words[p] = codes.slot(2 * p, s) | codes.slot(2 * p + 1, s) << 4;
    }
    transpose(words);
    std::memcpy(plane + 16 * s, words, 16);
  }
}
void unpack4(const Codes& codes, uint32_t slots, const uint8_t* plane) {
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[4];
    std::memcpy(words, plane + 16 * s, 16);
    transpose(words);
    for (uint32_t p = 0; p < 4; ++p) {
      codes.put(2 * p, s, words[p] & 0x0f0f0f0f);
      codes.put(2 * p + 1, s, words[p] >> 4 & 0x0f0f0f0f);
    }
  }
}

void pack5(const Codes& codes, uint32_t slots, uint8_t* plane) {
  uint8_t* fifth = plane + uint64_t{16} * slots;
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[5] = {};
    for (uint32_t o = 0; o < 6; ++o) {
      const uint32_t four = codes.slot(o, s);
      for (uint32_t i = 0; i < 4; ++i) words[i] |= byte_of(four, i) << (5 * o);
    }
    const uint32_t six = codes.slot(6, s), seven = codes.slot(7, s);
    for (uint32_t i = 0; i < 3; ++i) {
      words[4] |= (byte_of(six, i) | byte_of(seven, i) << 5) << (10 * i);
    }
    const uint32_t rest = byte_of(six, 3) | byte_of(seven, 3) << 5;
    for (uint32_t n = 0; n < 5; ++n) words[n] |= ((rest >> (8 - 2 * n)) & 3) << 30;
    std::memcpy(plane + 16 * s, words, 16);
    store_word(fifth + 4 * s, words[4]);
  }
}
void unpack5(const Codes& codes, uint32_t slots, const uint8_t* plane) {
  const uint8_t* fifth = plane + uint64_t{16} * slots;
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[5];
    std::memcpy(words, plane + 16 * s, 16);
    words[4] = load_word(fifth + 4 * s);
    for (uint32_t o = 0; o < 6; ++o) {
      uint32_t four = 0;
      for (uint32_t i = 0; i < 4; ++i) four |= (words[i] >> (5 * o) & 31) << (8 * i);
      codes.put(o, s, four);
    }
    uint32_t rest = 0, six = 0, seven = 0;
    for (const uint32_t word : words) rest = rest << 2 | word >> 30;
    for (uint32_t i = 0; i < 3; ++i) {
      six |= (words[4] >> (10 * i) & 31) << (8 * i);
      seven |= (words[4] >> (10 * i + 5) & 31) << (8 * i);
    }
    codes.put(6, s, six | (rest & 31) << 24);
    codes.put(7, s, seven | rest >> 5 << 24);
  }
}

void pack6(const Codes& codes, uint32_t slots, uint8_t* plane) {
  uint8_t* second = plane + uint64_t{16} * slots;
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[6] = {};
    for (uint32_t o = 0; o < kOutputs; ++o) {
      const uint32_t four = codes.slot(o, s);
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t field = 8 * (i % 2) + o, q = byte_of(four, i);
        uint32_t* three = words + 3 * (i / 2);
        if (field < 15) {
          three[field / 5] |= q << (6 * (field % 5));
        } else {
          for (uint32_t n = 0; n < 3; ++n) three[n] |= ((q >> (4 - 2 * n)) & 3) << 30;
        }
      }
    }
    std::memcpy(plane + 16 * s, words, 16);
    std::memcpy(second + 8 * s, words + 4, 8);
  }
}
void unpack6(const Codes& codes, uint32_t slots, const uint8_t* plane) {
  const uint8_t* second = plane + uint64_t{16} * slots;
  for (uint64_t s = 0; s < slots; ++s) {
    uint32_t words[6];
    std::memcpy(words, plane + 16 * s, 16);
    std::memcpy(words + 4, second + 8 * s, 8);
    for (uint32_t o = 0; o < kOutputs; ++o) {
      uint32_t four = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t field = 8 * (i % 2) + o;
        const uint32_t* three = words + 3 * (i / 2);
        const uint32_t q = field < 15
                               ? three[field / 5] >> (6 * (field % 5)) & 63
                               : (three[0] >> 30) << 4 | (three[1] >> 30) << 2 | three[2] >> 30;
        four |= q << (8 * i);
      }
      codes.put(o, s, four);
    }
  }
}

// Numbers of kBytes bytes each (1, 2, 4): 16 bytes of neighbouring outputs' slots a plane.
template <uint32_t kBytes>
void pack_bytes(const Codes& rows, uint32_t slots, uint8_t* plane) {
  constexpr uint32_t kWidth = kSlotColumns * kBytes, kPlaneOutputs = 16 / kWidth;
  for (uint32_t o = 0; o < kOutputs; ++o) {
    const uint8_t* from = rows.row(o);
    uint8_t* to = plane + uint64_t{o / kPlaneOutputs} * slots * 16 + o % kPlaneOutputs * kWidth;
    for (uint64_t s = 0; s < slots; ++s) std::memcpy(to + 16 * s, from + kWidth * s, kWidth);
  }
}
template <uint32_t kBytes>
void unpack_bytes(const Codes& rows, uint32_t slots, const uint8_t* plane) {
  constexpr uint32_t kWidth = kSlotColumns * kBytes, kPlaneOutputs = 16 / kWidth;
  for (uint32_t o = 0; o < kOutputs; ++o) {
    uint8_t* to = rows.row(o);
    const uint8_t* from =
        plane + uint64_t{o / kPlaneOutputs} * slots * 16 + o % kPlaneOutputs * kWidth;
    for (uint64_t s = 0; s < slots; ++s) std::memcpy(to + kWidth * s, from + 16 * s, kWidth);
  }
}

// The 6-bit pairs of a Q4_K block: 8 scales, 8 mins in 12 bytes.
void split_scales(const uint8_t* packed, uint8_t (&scale)[8], uint8_t (&min)[8]) {
  for (int j = 0; j < 4; ++j) {
    scale[j] = packed[j] & 63;
    min[j] = packed[j + 4] & 63;
    scale[j + 4] = static_cast<uint8_t>((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
    min[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4);
  }
}
void join_scales(const uint8_t (&scale)[8], const uint8_t (&min)[8], uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(scale[j] | (scale[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(min[j] | (min[j + 4] >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
  }
}

// A file's row of one type <-> codes and the tile's scale planes. split: file to tile; join: back.
// `block`: one block of the file; `codes`: its columns; `scales`: the tile's planes behind the
// quants; `b`: the block's index in its row; `blocks`: blocks of a row; `o`: output of the tile.

struct Q4_0 {
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b, uint32_t,
                    uint32_t o) {
    std::memcpy(scales + 2 * (b * kOutputs + o), block, 2);
    for (int j = 0; j < 16; ++j) {
      codes[j] = block[2 + j] & 15;
      codes[j + 16] = block[2 + j] >> 4;
    }
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t, uint32_t o) {
    std::memcpy(block, scales + 2 * (b * kOutputs + o), 2);
    for (int j = 0; j < 16; ++j) {
      block[2 + j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
    }
  }
};

struct Q4_1 {
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b, uint32_t,
                    uint32_t o) {
    std::memcpy(scales + 4 * (b * kOutputs + o), block, 4);
    for (int j = 0; j < 16; ++j) {
      codes[j] = block[4 + j] & 15;
      codes[j + 16] = block[4 + j] >> 4;
    }
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t, uint32_t o) {
    std::memcpy(block, scales + 4 * (b * kOutputs + o), 4);
    for (int j = 0; j < 16; ++j) {
      block[4 + j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
    }
  }
};

struct Q5_0 {
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b, uint32_t,
                    uint32_t o) {
    std::memcpy(scales + 2 * (b * kOutputs + o), block, 2);
    const uint32_t high = load_word(block + 2);
    for (int j = 0; j < 16; ++j) {
      codes[j] = static_cast<uint8_t>((block[6 + j] & 15) | ((high >> j) & 1) << 4);
      codes[j + 16] = static_cast<uint8_t>((block[6 + j] >> 4) | ((high >> (j + 16)) & 1) << 4);
    }
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t, uint32_t o) {
    std::memcpy(block, scales + 2 * (b * kOutputs + o), 2);
    uint32_t high = 0;
    for (int j = 0; j < 32; ++j) high |= uint32_t{codes[j]} >> 4 << j;
    store_word(block + 2, high);
    for (int j = 0; j < 16; ++j) {
      block[6 + j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
    }
  }
};

struct Q8_0 {
  static constexpr uint32_t kSigns = 0x80808080;
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b, uint32_t,
                    uint32_t o) {
    std::memcpy(scales + 2 * (b * kOutputs + o), block, 2);
    for (int j = 0; j < 32; j += 4) store_word(codes + j, load_word(block + 2 + j) ^ kSigns);
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t, uint32_t o) {
    std::memcpy(block, scales + 2 * (b * kOutputs + o), 2);
    for (int j = 0; j < 32; j += 4) store_word(block + 2 + j, load_word(codes + j) ^ kSigns);
  }
};

struct Q4_K {
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b,
                    uint32_t blocks, uint32_t o) {
    uint8_t scale[8], min[8];
    split_scales(block + 4, scale, min);
    for (uint32_t j = 0; j < 8; ++j) {
      uint8_t* pair = scales + 2 * ((uint64_t{b} * 8 + j) * kOutputs + o);
      pair[0] = scale[j];
      pair[1] = min[j];
    }
    std::memcpy(scales + uint64_t{blocks} * 128 + 4 * (uint64_t{b} * kOutputs + o), block, 4);
    for (uint32_t g = 0; g < 4; ++g) {
      for (uint32_t j = 0; j < 32; ++j) {
        const uint8_t byte = block[16 + 32 * g + j];
        codes[64 * g + j] = byte & 15;
        codes[64 * g + 32 + j] = byte >> 4;
      }
    }
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t blocks, uint32_t o) {
    uint8_t scale[8], min[8];
    for (uint32_t j = 0; j < 8; ++j) {
      const uint8_t* pair = scales + 2 * ((uint64_t{b} * 8 + j) * kOutputs + o);
      scale[j] = pair[0];
      min[j] = pair[1];
    }
    join_scales(scale, min, block + 4);
    std::memcpy(block, scales + uint64_t{blocks} * 128 + 4 * (uint64_t{b} * kOutputs + o), 4);
    for (uint32_t g = 0; g < 4; ++g) {
      for (uint32_t j = 0; j < 32; ++j) {
        block[16 + 32 * g + j] =
            static_cast<uint8_t>(codes[64 * g + j] | codes[64 * g + 32 + j] << 4);
      }
    }
  }
};

// ql[128], qh[64], scales[16], d. Half n, quarter m: 32 columns at 128 n + 32 m; low four bits in
// ql[64 n + 32 (m % 2)] (nibble m / 2), high two at bits 2 m of qh[32 n].
struct Q6_K {
  static void split(const uint8_t* block, uint8_t* codes, uint8_t* scales, uint32_t b,
                    uint32_t blocks, uint32_t o) {
    for (uint32_t n = 0; n < 2; ++n) {
      for (uint32_t m = 0; m < 4; ++m) {
        const uint8_t* low = block + 64 * n + 32 * (m % 2);
        const uint8_t* high = block + 128 + 32 * n;
        uint8_t* to = codes + 128 * n + 32 * m;
        for (uint32_t j = 0; j < 32; ++j) {
          to[j] = static_cast<uint8_t>(((low[j] >> (4 * (m / 2))) & 15) | ((high[j] >> (2 * m)) & 3)
                                                                              << 4);
        }
      }
    }
    for (uint32_t j = 0; j < 16; ++j) {
      scales[(uint64_t{b} * 16 + j) * kOutputs + o] = block[192 + j];
    }
    std::memcpy(scales + uint64_t{blocks} * 128 + 2 * (uint64_t{b} * kOutputs + o), block + 208, 2);
  }
  static void join(uint8_t* block, const uint8_t* codes, const uint8_t* scales, uint32_t b,
                   uint32_t blocks, uint32_t o) {
    for (uint32_t n = 0; n < 2; ++n) {
      const uint8_t* from = codes + 128 * n;
      for (uint32_t j = 0; j < 32; ++j) {
        const uint32_t q0 = from[j], q1 = from[32 + j], q2 = from[64 + j], q3 = from[96 + j];
        block[64 * n + j] = static_cast<uint8_t>((q0 & 15) | (q2 & 15) << 4);
        block[64 * n + 32 + j] = static_cast<uint8_t>((q1 & 15) | (q3 & 15) << 4);
        block[128 + 32 * n + j] =
            static_cast<uint8_t>(q0 >> 4 | q1 >> 4 << 2 | q2 >> 4 << 4 | q3 >> 4 << 6);
      }
    }
    for (uint32_t j = 0; j < 16; ++j) {
      block[192 + j] = scales[(uint64_t{b} * 16 + j) * kOutputs + o];
    }
    std::memcpy(block + 208, scales + uint64_t{blocks} * 128 + 2 * (uint64_t{b} * kOutputs + o), 2);
  }
};

using PackFields = void (*)(const Codes&, uint32_t, uint8_t*);
using UnpackFields = void (*)(const Codes&, uint32_t, const uint8_t*);
using SplitBlock = void (*)(const uint8_t*, uint8_t*, uint8_t*, uint32_t, uint32_t, uint32_t);
using JoinBlock = void (*)(uint8_t*, const uint8_t*, const uint8_t*, uint32_t, uint32_t, uint32_t);

// What the generic walk must know of a type. Plain numbers are not split: they are the codes.
struct Layout {
  const char* suffix;
  uint32_t slot_bytes;   // of the quants planes, all of them
  uint32_t scale_bytes;  // of a file block and 8 outputs
  SplitBlock split;
  JoinBlock join;
  PackFields pack;
  UnpackFields unpack;
};

const Layout* find_layout(DType dtype) {
  static const Layout f32{"f32", 128, 0, nullptr, nullptr, pack_bytes<4>, unpack_bytes<4>};
  static const Layout f16{"f16", 64, 0, nullptr, nullptr, pack_bytes<2>, unpack_bytes<2>};
  static const Layout bf16{"bf16", 64, 0, nullptr, nullptr, pack_bytes<2>, unpack_bytes<2>};
  static const Layout q4_0{"q4_0", 16, 16, Q4_0::split, Q4_0::join, pack4, unpack4};
  static const Layout q4_1{"q4_1", 16, 32, Q4_1::split, Q4_1::join, pack4, unpack4};
  static const Layout q5_0{"q5_0", 20, 16, Q5_0::split, Q5_0::join, pack5, unpack5};
  static const Layout q8_0{"q8_0", 32, 16, Q8_0::split, Q8_0::join, pack_bytes<1>, unpack_bytes<1>};
  static const Layout q4_k{"q4_k", 16, 160, Q4_K::split, Q4_K::join, pack4, unpack4};
  static const Layout q6_k{"q6_k", 24, 144, Q6_K::split, Q6_K::join, pack6, unpack6};
  if (dtype == DType::F32) return &f32;
  if (dtype == DType::F16) return &f16;
  if (dtype == DType::BF16) return &bf16;
  if (dtype == DType::Q4_0) return &q4_0;
  if (dtype == DType::Q4_1) return &q4_1;
  if (dtype == DType::Q5_0) return &q5_0;
  if (dtype == DType::Q8_0) return &q8_0;
  if (dtype == DType::Q4_K) return &q4_k;
  if (dtype == DType::Q6_K) return &q6_k;
  return nullptr;
}

const Layout& checked_layout(DType dtype, uint32_t columns) {
  const Layout* layout = find_layout(dtype);
  LS_CHECK(layout != nullptr, std::string(model::name(dtype)));
  LS_CHECK(columns > 0 && columns % model::layout(dtype).block_elements == 0);
  return *layout;
}

const uint8_t* bytes_of(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
uint8_t* bytes_of(std::byte* p) { return reinterpret_cast<uint8_t*>(p); }

// What both directions walk over.
struct Walk {
  const Layout& layout;
  uint32_t rows, columns, slots, blocks;
  uint64_t row_bytes, block_bytes, block_elements, tile_bytes, tiles;
  Walk(DType dtype, uint32_t rows_in, uint32_t columns_in)
      : layout(checked_layout(dtype, columns_in)), rows(rows_in), columns(columns_in) {
    const model::DTypeLayout& file = model::layout(dtype);
    block_bytes = file.block_bytes;
    block_elements = file.block_elements;
    slots = slot_count(columns);
    blocks = columns / file.block_elements;
    row_bytes = blocks * block_bytes;
    tile_bytes = weight_tile_bytes(dtype, columns);
    tiles = rows / kOutputs + (rows % kOutputs != 0 ? 1 : 0);
  }
  // Of a tile's rows beside each other: a byte a code, or the numbers themselves.
  uint64_t stride() const {
    return uint64_t{slots} * kSlotColumns * (layout.split != nullptr ? 1 : block_bytes);
  }
  uint32_t outputs(uint64_t tile) const {
    return static_cast<uint32_t>(std::min<uint64_t>(kOutputs, rows - tile * kOutputs));
  }
};

}  // namespace

bool weight_supported(DType dtype) { return find_layout(dtype) != nullptr; }

const char* weight_suffix(DType dtype) {
  const Layout* layout = find_layout(dtype);
  LS_CHECK(layout != nullptr, std::string(model::name(dtype)));
  return layout->suffix;
}

uint64_t weight_tile_bytes(DType dtype, uint32_t columns) {
  const Layout& layout = checked_layout(dtype, columns);
  return uint64_t{slot_count(columns)} * layout.slot_bytes +
         uint64_t{columns / model::layout(dtype).block_elements} * layout.scale_bytes;
}

uint64_t weight_bytes(DType dtype, uint32_t rows, uint32_t columns) {
  const uint64_t tiles = rows / kOutputs + (rows % kOutputs != 0 ? 1 : 0);
  return tiles * weight_tile_bytes(dtype, columns);
}

std::vector<std::byte> repack(DType dtype, uint32_t rows, uint32_t columns,
                              std::span<const std::byte> file_bytes) {
  const Walk walk(dtype, rows, columns);
  LS_CHECK(file_bytes.size() == walk.rows * walk.row_bytes);
  std::vector<std::byte> result(walk.tiles * walk.tile_bytes);
  std::vector<uint8_t> beside(kOutputs * walk.stride());
  const Codes codes{beside.data(), walk.stride()};
  for (uint64_t tile = 0; tile < walk.tiles; ++tile) {
    const uint32_t outputs = walk.outputs(tile);
    if (outputs < kOutputs) std::ranges::fill(beside, uint8_t{0});
    const uint8_t* file = bytes_of(file_bytes.data()) + tile * kOutputs * walk.row_bytes;
    uint8_t* to = bytes_of(result.data()) + tile * walk.tile_bytes;
    uint8_t* scales = to + uint64_t{walk.slots} * walk.layout.slot_bytes;
    for (uint32_t o = 0; o < outputs; ++o) {
      const uint8_t* row = file + o * walk.row_bytes;
      if (walk.layout.split == nullptr) {
        std::memcpy(codes.row(o), row, walk.row_bytes);
        continue;
      }
      for (uint32_t b = 0; b < walk.blocks; ++b) {
        walk.layout.split(row + b * walk.block_bytes, codes.row(o) + b * walk.block_elements,
                          scales, b, walk.blocks, o);
      }
    }
    walk.layout.pack(codes, walk.slots, to);
  }
  return result;
}

std::vector<std::byte> unpack(DType dtype, uint32_t rows, uint32_t columns,
                              std::span<const std::byte> device_bytes) {
  const Walk walk(dtype, rows, columns);
  LS_CHECK(device_bytes.size() == walk.tiles * walk.tile_bytes);
  std::vector<std::byte> result(walk.rows * walk.row_bytes);
  std::vector<uint8_t> beside(kOutputs * walk.stride());
  const Codes codes{beside.data(), walk.stride()};
  for (uint64_t tile = 0; tile < walk.tiles; ++tile) {
    const uint8_t* from = bytes_of(device_bytes.data()) + tile * walk.tile_bytes;
    const uint8_t* scales = from + uint64_t{walk.slots} * walk.layout.slot_bytes;
    uint8_t* file = bytes_of(result.data()) + tile * kOutputs * walk.row_bytes;
    walk.layout.unpack(codes, walk.slots, from);
    for (uint32_t o = 0; o < walk.outputs(tile); ++o) {
      uint8_t* row = file + o * walk.row_bytes;
      if (walk.layout.join == nullptr) {
        std::memcpy(row, codes.row(o), walk.row_bytes);
        continue;
      }
      for (uint32_t b = 0; b < walk.blocks; ++b) {
        walk.layout.join(row + b * walk.block_bytes, codes.row(o) + b * walk.block_elements, scales,
                         b, walk.blocks, o);
      }
    }
  }
  return result;
}

}  // namespace lockstep::kernels
