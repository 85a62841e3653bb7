// The judge of block managers: ours keeps every rule, and each kind of wrong answer is named.
#include <gtest/gtest.h>

#include <functional>

#include "harness/blocks/cache_manager.h"
#include "harness/blocks/drive.h"
#include "harness/blocks/process_manager.h"

namespace lockstep::harness {
namespace {

using trace::kNoBlock;

TEST(BlockManagers, OursKeepsEveryRule) {
  for (const engine::PoolPolicy policy : {engine::PoolPolicy{}, kVllmPolicy}) {
    CacheManager manager(policy);
    const auto report = drive_blocks(manager, 1, 60, 200);
    ASSERT_TRUE(report.ok()) << report.error().message();
    for (const BlockFinding& finding : report->findings) {
      ADD_FAILURE() << "seed " << finding.seed << ", operation " << finding.operation << ", "
                    << finding.what << ": " << name(finding.breach.rule) << ": "
                    << finding.breach.message;
    }
    EXPECT_GT(report->hits, 1000u);
    EXPECT_GT(report->refusals, 1000u);
  }
}

// Our manager behind a change of its answers. `before`: the answer to the operation before.
class Damaged : public BlockManager {
 public:
  using Change =
      std::function<bool(const BlockOperation&, const BlockAnswer& before, BlockAnswer&)>;
  explicit Damaged(Change change) : change_(std::move(change)) {}
  base::Status set_up(const BlockSetup& setup) override {
    before_ = {};
    before_.free = setup.num_blocks;
    return manager_.set_up(setup);
  }
  base::Result<BlockAnswer> apply(const BlockOperation& operation) override {
    LS_ASSIGN(BlockAnswer answer, manager_.apply(operation));
    const BlockAnswer true_answer = answer;
    changed += change_(operation, before_, answer);
    before_ = true_answer;
    return answer;
  }
  std::uint64_t changed = 0;

 private:
  CacheManager manager_;
  Change change_;
  BlockAnswer before_;
};

struct Damage {
  BlockRule rule;
  Damaged::Change change;  // true: the answer was changed
};

using Operation = BlockOperation;
using Answer = BlockAnswer;

const Damage kDamages[] = {
    {BlockRule::TableLength,
     [](const Operation&, const Answer&, Answer& answer) {
       if (!answer.ok || answer.blocks.empty()) return false;
       answer.blocks[0].pop_back();
       return true;
     }},
    {BlockRule::TableLength,
     [](const Operation&, const Answer&, Answer& answer) {
       if (!answer.ok || answer.blocks.empty()) return false;
       answer.blocks.emplace_back();
       return true;
     }},
    {BlockRule::Held,
     [](const Operation&, const Answer&, Answer& answer) {
       if (!answer.ok || answer.blocks.empty()) return false;
       answer.blocks[0].back() = kNoBlock;
       return true;
     }},
    {BlockRule::Stable,
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::Step || !answer.ok) return false;
       auto& table = answer.blocks[0];
       if (table.size() < 3) return false;
       std::swap(table[table.size() - 2], table[table.size() - 3]);
       return true;
     }},
    {BlockRule::OneOwner,  // the last block is the one that was handed out before
     [](const Operation& operation, const Answer& before, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       if (!before.ok || before.blocks.empty()) return false;
       answer.blocks[0].back() = before.blocks[0].back();
       return true;
     }},
    {BlockRule::OneOwner,  // one block in two places of a table
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       auto& table = answer.blocks[0];
       if (answer.hit_tokens > 0 || table.size() < 2) return false;
       table[0] = table[1];
       return true;
     }},
    {BlockRule::HitLength,  // a full hit leaves nothing to compute
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       if (operation.computed < operation.tokens.size()) return false;
       answer.hit_tokens = static_cast<std::uint32_t>(operation.tokens.size());
       return true;
     }},
    {BlockRule::HitContent,  // hits what was not there
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       const std::size_t tables = answer.blocks[0].size();
       if (tables < 2 || operation.tokens.size() % tables != 0) return false;
       const std::size_t size = operation.tokens.size() / tables;  // full blocks, one of them left
       answer.hit_tokens = static_cast<std::uint32_t>((tables - 1) * size);
       return true;
     }},
    {BlockRule::HitContent,  // the right length, the wrong blocks
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       auto& table = answer.blocks[0];
       if (answer.hit_tokens == 0 || table.size() < 3 || table[table.size() - 3] == kNoBlock) {
         return false;
       }
       std::swap(table[table.size() - 3], table[table.size() - 2]);
       return true;
     }},
    {BlockRule::FreeCount,
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::Free) return false;
       ++answer.free;
       return true;
     }},
    {BlockRule::RefusalTrace,  // a pin of the hit leaks
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::New || answer.ok || answer.free == 0) return false;
       --answer.free;
       return true;
     }},
    {BlockRule::RefusalTrace,
     [](const Operation& operation, const Answer&, Answer& answer) {
       if (operation.kind != Operation::Kind::Step || answer.ok) return false;
       answer.blocks[0].back() = kNoBlock;
       return true;
     }},
    {BlockRule::Refusal,
     [](const Operation& operation, const Answer& before, Answer& answer) {
       if (operation.kind != Operation::Kind::New || !answer.ok) return false;
       if (before.free < operation.tokens.size() * 2) return false;
       answer = {};
       answer.ok = false;
       answer.free = before.free;
       return true;
     }},
};

TEST(BlockManagers, EachWrongAnswerIsFoundAndNamed) {
  for (std::size_t i = 0; i < std::size(kDamages); ++i) {
    Damaged manager(kDamages[i].change);
    const auto report = drive_blocks(manager, 1, 20, 100);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_GT(manager.changed, 0u) << "damage " << i;
    ASSERT_FALSE(report->findings.empty()) << "damage " << i;
    std::size_t named = 0;
    for (const BlockFinding& finding : report->findings) {
      named += finding.breach.rule == kDamages[i].rule;
    }
    EXPECT_GT(named, 0u) << "damage " << i << ": " << name(kDamages[i].rule) << ", found "
                         << name(report->findings[0].breach.rule) << ": "
                         << report->findings[0].breach.message;
  }
}

// --- Processes ---

std::string simple_manager() {
  return std::string("python3 ") + LOCKSTEP_SOURCE_DIR + "/docs/block_managers/simple.py";
}

TEST(BlockManagers, AProcessIsDrivenAsOursIs) {
  auto manager = ProcessManager::start(simple_manager());
  ASSERT_TRUE(manager.ok()) << manager.error().message();
  const auto report = drive_blocks(**manager, 1, 10, 50);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->operations, 500u);
  EXPECT_GT(report->refusals, 0u);
  for (const BlockFinding& finding : report->findings) ADD_FAILURE() << finding.breach.message;
}

base::Result<BlockDriveReport> drive_command(const std::string& command) {
  LS_ASSIGN(const auto manager,
            ProcessManager::start(command, {.answer_ms = 2000, .set_up_ms = 2000}));
  return drive_blocks(*manager, 1, 3, 5);
}

TEST(BlockManagers, AProcessThatIsNoBlockManagerIsAnError) {
  const auto missing = drive_command("exec /no/such/program 2>/dev/null");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().exit_status(), 4);
  const auto silent = drive_command("exec sleep 20");
  ASSERT_FALSE(silent.ok());
  EXPECT_EQ(silent.error().exit_status(), 4);
  const auto echo = drive_command("exec cat");
  ASSERT_FALSE(echo.ok());
  EXPECT_EQ(echo.error().exit_status(), 2);
}

TEST(BlockManagers, AnAnswerThatIsNoneIsAFinding) {
  // Right about the first setup (seed 1), then wrong in one way or another.
  const std::string setup =
      "read line; echo \"$line\" | sed 's/.*\"num_blocks\":\\([0-9]*\\).*/{\"free\":\\1}/'; ";
  for (const char* rest : {"exit 1", "read line; echo nonsense", "read line; echo '{\"free\": -1}'",
                           "read line; echo '{\"free\": 3, \"ok\": true, \"hit_tokens\": 0}'",
                           "read line; echo '{\"free\": 3, \"ok\": true, \"hit_tokens\": 0, "
                           "\"blocks\": [[1.5]]}'"}) {
    auto manager = ProcessManager::start(setup + rest, {.answer_ms = 5000, .set_up_ms = 5000});
    ASSERT_TRUE(manager.ok());
    const auto report = drive_blocks(**manager, 1, 1, 5);
    ASSERT_TRUE(report.ok()) << report.error().message();
    ASSERT_EQ(report->findings.size(), 1u) << rest;
    EXPECT_EQ(report->findings[0].breach.rule, BlockRule::Answer) << rest;
  }
}

}  // namespace
}  // namespace lockstep::harness
