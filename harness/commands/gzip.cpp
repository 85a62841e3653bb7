#include "harness/commands/gzip.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace lockstep::harness {
namespace {

constexpr std::uint32_t kMaxBits = 15;  // of a code

// CRC-32 of RFC 1952, section 8: polynomial 0xedb88320, reflected.
std::uint32_t crc32(std::span<const char> bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ (value >> 1) : value >> 1;
      made[i] = value;
    }
    return made;
  }();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    crc = table[(crc ^ static_cast<std::uint8_t>(byte)) & 255] ^ crc >> 8;
  return ~crc;
}

// A canonical Huffman code: symbols in order of code, and how many codes have each length.
struct Code {
  std::array<std::uint16_t, kMaxBits + 1> counts{};
  std::vector<std::uint16_t> symbols;
};

// False: more codes than fit (an incomplete code is allowed: RFC 1951 has one, of one distance).
bool make_code(std::span<const std::uint8_t> lengths, Code& code) {
  code.counts.fill(0);
  for (const std::uint8_t length : lengths) ++code.counts[length];
  code.counts[0] = 0;
  int left = 1;
  for (std::uint32_t length = 1; length <= kMaxBits; ++length) {
    left = 2 * left - code.counts[length];
    if (left < 0) return false;
  }
  std::array<std::size_t, kMaxBits + 2> offsets{};
  for (std::uint32_t length = 1; length <= kMaxBits; ++length) {
    offsets[length + 1] = offsets[length] + code.counts[length];
  }
  code.symbols.assign(offsets[kMaxBits + 1], 0);
  for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    if (lengths[symbol] > 0) {
      code.symbols[offsets[lengths[symbol]]++] = static_cast<std::uint16_t>(symbol);
    }
  }
  return true;
}

class Inflater {
 public:
  Inflater(const std::string& path, const std::string& bytes, std::uint64_t most_bytes)
      : path_(path), bytes_(bytes), most_bytes_(most_bytes) {}

  base::Result<std::string> run() {
    while (at_ < bytes_.size()) LS_TRY(member());
    return std::move(out_);
  }

 private:
  base::Error error(const std::string& rule) const {
    return base::input_error(path_, at_, "gzip", rule);
  }
  base::Status byte(std::uint32_t& value) {
    if (at_ >= bytes_.size()) return error("the file is cut off");
    value = static_cast<std::uint8_t>(bytes_[at_++]);
    return base::Ok{};
  }
  base::Status bits(std::uint32_t count, std::uint32_t& value) {
    while (held_ < count) {
      std::uint32_t next = 0;
      LS_TRY(byte(next));
      buffer_ |= next << held_;
      held_ += 8;
    }
    value = buffer_ & ((1u << count) - 1);
    buffer_ >>= count;
    held_ -= count;
    return base::Ok{};
  }
  base::Status number(std::uint32_t byte_count, std::uint32_t& value) {
    value = 0;
    for (std::uint32_t i = 0; i < byte_count; ++i) {
      std::uint32_t next = 0;
      LS_TRY(byte(next));
      value |= next << (8 * i);
    }
    return base::Ok{};
  }
  base::Status text() {  // to its zero
    for (std::uint32_t letter = 1; letter != 0;) LS_TRY(byte(letter));
    return base::Ok{};
  }
  base::Status symbol(const Code& code, std::uint32_t& value) {
    std::uint32_t bit = 0;
    int number = 0, first = 0, index = 0;
    for (std::uint32_t length = 1; length <= kMaxBits; ++length) {
      LS_TRY(bits(1, bit));
      number |= static_cast<int>(bit);
      const int count = code.counts[length];
      if (number - count < first) {
        value = code.symbols[static_cast<std::size_t>(index + number - first)];
        return base::Ok{};
      }
      index += count;
      first = (first + count) << 1;
      number <<= 1;
    }
    return error("a code that no symbol has");
  }
  base::Status put(char letter) {
    if (out_.size() >= most_bytes_) return error("is larger than the limit when decompressed");
    out_.push_back(letter);
    return base::Ok{};
  }

  base::Status member();
  base::Status deflate();
  base::Status stored();
  base::Status dynamic_codes(Code& literals, Code& distances);
  base::Status compressed(const Code& literals, const Code& distances);

  const std::string& path_;
  const std::string& bytes_;
  std::uint64_t most_bytes_;
  std::size_t at_ = 0, member_start_ = 0;
  std::uint32_t buffer_ = 0, held_ = 0;
  std::string out_;
};

base::Status Inflater::member() {
  std::uint32_t magic = 0, method = 0, flags = 0, skipped = 0, length = 0;
  LS_TRY(number(2, magic));
  LS_TRY(byte(method));
  LS_TRY(byte(flags));
  if (magic != 0x8b1f || method != 8) return error("no member of gzip begins here");
  LS_TRY(number(4, skipped));  // time
  LS_TRY(number(2, skipped));  // kind, system
  if (flags & 4) {
    LS_TRY(number(2, length));
    for (; length > 0; --length) LS_TRY(byte(skipped));
  }
  if (flags & 8) LS_TRY(text());   // name
  if (flags & 16) LS_TRY(text());  // comment
  if (flags & 2) LS_TRY(number(2, skipped));
  member_start_ = out_.size();
  LS_TRY(deflate());
  std::uint32_t crc = 0, size = 0;
  LS_TRY(number(4, crc));
  LS_TRY(number(4, size));
  const std::span<const char> member(out_.data() + member_start_, out_.size() - member_start_);
  if (crc != crc32(member)) return error("CRC-32 is wrong");
  if (size != static_cast<std::uint32_t>(member.size())) return error("length is wrong");
  return base::Ok{};
}

base::Status Inflater::deflate() {
  buffer_ = held_ = 0;
  for (std::uint32_t last = 0; last == 0;) {
    std::uint32_t type = 0;
    LS_TRY(bits(1, last));
    LS_TRY(bits(2, type));
    if (type == 0) {
      LS_TRY(stored());
    } else if (type == 1) {
      std::array<std::uint8_t, 288> lengths{};
      std::fill(lengths.begin(), lengths.begin() + 144, std::uint8_t{8});
      std::fill(lengths.begin() + 144, lengths.begin() + 256, std::uint8_t{9});
      std::fill(lengths.begin() + 256, lengths.begin() + 280, std::uint8_t{7});
      std::fill(lengths.begin() + 280, lengths.end(), std::uint8_t{8});
      std::array<std::uint8_t, 30> distance_lengths{};
      distance_lengths.fill(5);
      Code literals, distances;
      make_code(lengths, literals);
      make_code(distance_lengths, distances);
      LS_TRY(compressed(literals, distances));
    } else if (type == 2) {
      Code literals, distances;
      LS_TRY(dynamic_codes(literals, distances));
      LS_TRY(compressed(literals, distances));
    } else {
      return error("a block of type 3");
    }
  }
  return base::Ok{};
}

base::Status Inflater::stored() {
  buffer_ = held_ = 0;  // the rest of the byte
  std::uint32_t length = 0, complement = 0, letter = 0;
  LS_TRY(number(2, length));
  LS_TRY(number(2, complement));
  if (length != (complement ^ 0xffffu)) return error("the length of a stored block is damaged");
  for (; length > 0; --length) {
    LS_TRY(byte(letter));
    LS_TRY(put(static_cast<char>(letter)));
  }
  return base::Ok{};
}

base::Status Inflater::dynamic_codes(Code& literals, Code& distances) {
  std::uint32_t literal_count = 0, distance_count = 0, length_count = 0;
  LS_TRY(bits(5, literal_count));
  LS_TRY(bits(5, distance_count));
  LS_TRY(bits(4, length_count));
  literal_count += 257;
  ++distance_count;
  length_count += 4;
  if (literal_count > 286 || distance_count > 30) return error("too many codes");
  constexpr std::array<std::uint8_t, 19> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                   11, 4,  12, 3, 13, 2, 14, 1, 15};
  std::array<std::uint8_t, 19> length_lengths{};
  for (std::uint32_t i = 0; i < length_count; ++i) {
    std::uint32_t length = 0;
    LS_TRY(bits(3, length));
    length_lengths[kOrder[i]] = static_cast<std::uint8_t>(length);
  }
  Code length_code;
  if (!make_code(length_lengths, length_code)) return error("too many codes of one length");
  std::vector<std::uint8_t> lengths;
  while (lengths.size() < literal_count + distance_count) {
    std::uint32_t value = 0, repeat = 1, extra = 0;
    LS_TRY(symbol(length_code, value));
    if (value == 16) {
      if (lengths.empty()) return error("a repetition of nothing");
      LS_TRY(bits(2, extra));
      value = lengths.back();
      repeat = 3 + extra;
    } else if (value > 16) {
      LS_TRY(bits(value == 17 ? 3 : 7, extra));
      repeat = (value == 17 ? 3 : 11) + extra;
      value = 0;
    }
    lengths.insert(lengths.end(), repeat, static_cast<std::uint8_t>(value));
  }
  if (lengths.size() > literal_count + distance_count) return error("a repetition goes too far");
  const std::span<const std::uint8_t> all(lengths);
  if (all[256] == 0) return error("no code for the end of the block");
  if (!make_code(all.first(literal_count), literals) ||
      !make_code(all.subspan(literal_count), distances)) {
    return error("too many codes of one length");
  }
  return base::Ok{};
}

base::Status Inflater::compressed(const Code& literals, const Code& distances) {
  constexpr std::array<std::uint16_t, 29> kLengthBase = {
      3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr std::array<std::uint8_t, 29> kLengthExtra = {
      0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  constexpr std::array<std::uint16_t, 30> kDistanceBase = {
      1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  for (;;) {
    std::uint32_t value = 0, extra = 0;
    LS_TRY(symbol(literals, value));
    if (value < 256) {
      LS_TRY(put(static_cast<char>(value)));
      continue;
    }
    if (value == 256) return base::Ok{};
    value -= 257;
    if (value >= kLengthBase.size()) return error("a length that does not exist");
    LS_TRY(bits(kLengthExtra[value], extra));
    const std::uint32_t length = kLengthBase[value] + extra;
    LS_TRY(symbol(distances, value));
    if (value >= kDistanceBase.size()) return error("a distance that does not exist");
    LS_TRY(bits(value < 2 ? 0 : value / 2 - 1, extra));
    const std::size_t distance = kDistanceBase[value] + extra;
    if (distance > out_.size() - member_start_) return error("a distance before the beginning");
    for (std::uint32_t i = 0; i < length; ++i) LS_TRY(put(out_[out_.size() - distance]));
  }
}

}  // namespace

bool is_gzip(const std::string& bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

base::Result<std::string> gunzip(const std::string& path, const std::string& bytes,
                                 std::uint64_t most_bytes) {
  return Inflater(path, bytes, most_bytes).run();
}

}  // namespace lockstep::harness
