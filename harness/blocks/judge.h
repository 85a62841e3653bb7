// BlockJudge: what every block manager must keep, whatever its policy: a shadow of tables and of
// what was written to each block, judged answer by answer. docs/block_managers.md lists the rules.
#pragma once

#include <map>
#include <set>

#include "harness/blocks/manager.h"

namespace lockstep::harness {

enum class BlockRule : std::uint8_t {
  Answer,        // an answer comes, and is one
  TableLength,   // a table has an entry for each block of its positions
  Held,          // only blocks before a window are not held
  Stable,        // a block that is held stays where it is, until it is out of the window
  OneOwner,      // a block that is written belongs to one request and one place in one table
  HitLength,     // a hit is a whole number of blocks and leaves a token to compute
  HitContent,    // the blocks of a hit hold these tokens, all written
  FreeCount,     // free = all less those held
  RefusalTrace,  // a refusal changes nothing (but what is out of the window may go back)
  Refusal,       // nothing is refused that surely fits
};
std::string_view name(BlockRule rule);  // "free_count"

struct BlockBreach {
  BlockRule rule;
  std::string message;
};

class BlockJudge {
 public:
  explicit BlockJudge(const BlockSetup& setup) : setup_(setup), free_(setup.num_blocks) {}
  // Breaches of one answer, empty if all is well. The answer is then taken as it is.
  std::vector<BlockBreach> judge(const BlockOperation& operation, const BlockAnswer& answer);
  std::uint64_t checked() const { return checked_; }  // rules tried

 private:
  using Table = std::vector<trace::BlockId>;
  struct Request {
    std::vector<trace::TokenId> tokens;
    std::uint32_t computed = 0;
    std::vector<Table> tables;
  };
  // What a block holds: the hash of all tokens up to its last written one, in a place.
  struct Content {
    std::uint32_t group = 0, index = 0, written = 0;
    std::uint64_t prefix = 0;
    friend bool operator==(const Content&, const Content&) = default;
  };

  void breach(BlockRule rule, std::string message);
  void expect(bool holds, BlockRule rule, const std::string& message);
  std::uint32_t first_needed(std::uint32_t group, std::uint32_t next) const;
  void judge_growth(const BlockOperation& operation, const BlockAnswer& answer, Request& request,
                    std::uint32_t first);
  void judge_tables(const BlockAnswer& answer, const Request& before, std::uint32_t first,
                    std::uint32_t end);
  void judge_hit(const BlockAnswer& answer, const Request& request);
  void judge_refusal(const BlockAnswer& answer, Request& request, std::uint32_t first,
                     std::uint32_t end);
  void judge_holders(const std::string& id, std::uint32_t first, std::uint32_t end);
  void write(const Request& request, std::uint32_t first, std::uint32_t end);
  Content content(const Request& request, std::uint32_t group, std::uint32_t index,
                  std::uint32_t end) const;
  std::size_t held() const;

  BlockSetup setup_;
  std::uint32_t free_;
  std::map<std::string, Request> live_;
  std::map<trace::BlockId, Content> contents_;
  std::vector<BlockBreach> breaches_;
  std::uint64_t checked_ = 0;
};

}  // namespace lockstep::harness
