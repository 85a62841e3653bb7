// lockstep merge: the files of a campaign's shards into one outcome.
#include <fmt/format.h>

#include "harness/commands/campaign_report.h"
#include "harness/commands/scenario_commands.h"
#include "harness/search/merge.h"

namespace lockstep::harness {
namespace {

struct MergeArguments {
  CommonOptions common;
  std::vector<std::string> files;
};

base::Result<int> execute(const MergeArguments& arguments) {
  const Stopwatch watch;
  LS_ASSIGN(const MergedCampaign merged, merge_campaigns(arguments.files));
  CampaignReport report;
  report.command = "merge";
  report.seed = merged.identity.seed;
  report.tally = merged.tally;
  report.head = fmt::format("ledger campaign of {} shards", merged.identity.shard.count);
  report.repeat = "./lockstep merge";
  for (const std::string& file : arguments.files) report.repeat += " " + shell_quoted(file);
  report.seconds = watch.seconds();
  LS_TRY(print_campaign(report, arguments.common));
  return exit_status(campaign_verdict(report.tally));
}

}  // namespace

void add_merge(CommandLine& program) {
  auto arguments = std::make_shared<MergeArguments>();
  const Command command = program.command(
      "merge", "campaign.jsonl of all shards into one; a missing shard is exit status 4");
  command.option("files", arguments->files, "campaign.jsonl of each shard").required();
  add_common(command, arguments->common);
  command.body([arguments] { return execute(*arguments); });
}

}  // namespace lockstep::harness
