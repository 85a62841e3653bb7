// lockstep campaign: many scenarios of a seed, judged; findings minimized and kept as files.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "harness/commands/campaign_report.h"
#include "harness/commands/scenario_commands.h"
#include "harness/search/campaign.h"
#include "harness/search/canary.h"
#include "model/file.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

constexpr int kExitBug = 3, kExitTimeout = 124, kExitInterrupted = 130;
constexpr std::size_t kMinimizedKeysMax = 8;

struct CampaignArguments {
  CommonOptions common;
  std::uint64_t cases = 0;
  std::string time, timeout, shard = "1/1";
  unsigned jobs = 1;
  std::uint64_t stop = 0, runs = MinimizeOptions{}.runs_max;
  std::vector<std::string> from;
  bool report_wanted = false;
};

volatile sig_atomic_t interrupted = 0;
void note_interrupt(int) { interrupted = 1; }

// "90", "60s", "10m", "2h" -> seconds.
base::Result<double> parse_duration(const std::string& option, const std::string& text) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {  // std::stod throws where there is no number
    end = std::string::npos;
  }
  const std::string unit = end <= text.size() ? text.substr(end) : "?";
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (scale == 0 || !(value > 0)) {
    return base::input_error(option, "must be a time such as 60s, 10m or 2h, not " + text);
  }
  return value * scale;
}

// The program as it is: a campaign is not gone on with by another one.
std::string program_hash() {
  const auto file = model::MappedFile::open("/proc/self/exe", {});
  return file ? base::hash_bytes((*file)->bytes()).hex() : std::string();
}

base::Status read_bases(const CampaignArguments& arguments, CampaignPlan& plan,
                        CampaignIdentity& identity) {
  if (arguments.from.empty()) return base::Ok{};
  LS_ASSIGN(const std::vector<std::string> paths, scenario_paths(arguments.from));
  std::string all;
  for (const std::string& path : paths) {
    LS_ASSIGN(ScenarioFile file, open_scenario(path));
    all += trace::write_scenario(file.scenario);
    plan.bases.push_back(std::move(file.scenario));
  }
  identity.from = base::hash_bytes(std::as_bytes(std::span(all))).hex();
  return base::Ok{};
}

std::string repeat_command(const CampaignArguments& arguments, const CampaignOutcome& outcome) {
  std::string text = "./lockstep campaign";
  if (!arguments.common.planted.empty()) text += " --planted " + arguments.common.planted;
  for (const std::string& path : arguments.from) text += " --from " + shell_quoted(path);
  if (arguments.shard != "1/1") text += " --shard " + arguments.shard;
  // What time allowed is said as a number of cases: that repeats.
  const std::uint64_t cases =
      arguments.cases > 0 ? arguments.cases : outcome.batches * CampaignPlan{}.batch_cases;
  if (arguments.stop > 0) text += fmt::format(" --stop {}", arguments.stop);
  return text + fmt::format(" --seed {} --cases {}", arguments.common.seed, cases);
}

// A worker's answer: one finding shrunk, its files written.
std::string shrink_text(const trace::Scenario& scenario, const std::string& key,
                        const std::string& folder, const std::string& origin,
                        std::uint64_t runs_max) {
  const ScenarioRunner run = ledger_runner();
  MinimizeOptions options;
  options.runs_max = runs_max;
  const base::Result<Minimized> small = minimize(scenario, key, run, options);
  if (!small) return nlohmann::json{{"failed", small.error().message()}}.dump();
  const base::Result<Recording> recording = record(small->scenario, run);
  const oracles::Finding* finding = recording ? find_key(recording->outcome, key) : nullptr;
  if (finding == nullptr) return nlohmann::json{{"failed", "it does not repeat"}}.dump();
  const base::Result<FindingFiles> files =
      write_finding(folder, small->scenario, *recording, *finding, origin);
  if (!files) return nlohmann::json{{"failed", files.error().message()}}.dump();
  const ShownFinding shown = shown_finding(*finding, small->scenario, recording->events, true);
  return nlohmann::json{{"message", shown.message},       {"notes", shown.notes},
                        {"scenario", shown.scenario},     {"timeline", shown.timeline},
                        {"size", small->scenario.size()}, {"runs", small->runs},
                        {"repeats", small->repeats},      {"scenario_file", files->scenario},
                        {"trace_file", files->trace}}
      .dump();
}

// What is found, in a child process: a subject that crashes on the way costs the shrinking only.
ReportedFinding shrink_apart(const CampaignArguments& arguments, const CampaignPlan& plan,
                             const std::string& key, const KeyTally& tally) {
  const std::uint64_t number = tally.cases.front();
  const trace::Scenario scenario = campaign_case(plan, number);
  const std::string origin = fmt::format("campaign --seed {}, case {}", plan.seed, number);
  ReportedFinding reported;
  reported.key = key;
  reported.size_before = scenario.size();
  Crash crash;
  const std::optional<std::string> text = run_apart(
      [&] {
        return shrink_text(scenario, key, arguments.common.report_folder, origin, arguments.runs);
      },
      &crash);
  const nlohmann::json value =
      text ? nlohmann::json::parse(*text) : nlohmann::json{{"failed", crash.how}};
  if (value.contains("failed")) {
    reported.failed = value["failed"].get<std::string>();
    // The case as it was generated is kept all the same.
    trace::Scenario whole = scenario;
    whole.note = finding_note(key, origin);
    const std::string path = (std::filesystem::path(arguments.common.report_folder) /
                              fmt::format("case-{}.json", number))
                                 .string();
    if (write_text(path, trace::write_scenario(whole))) reported.scenario_file = path;
    return reported;
  }
  reported.message = value["message"].get<std::string>();
  reported.notes = value["notes"].get<std::vector<std::string>>();
  reported.scenario = value["scenario"].get<std::vector<std::string>>();
  reported.timeline = value["timeline"].get<std::vector<std::string>>();
  reported.size = value["size"].get<std::size_t>();
  reported.runs = value["runs"].get<std::uint64_t>();
  reported.repeats = value["repeats"].get<bool>();
  reported.scenario_file = value["scenario_file"].get<std::string>();
  reported.trace_file = value["trace_file"].get<std::string>();
  return reported;
}

// Names the case that crashed, and keeps it.
void report_crash(const CampaignArguments& arguments, const CampaignPlan& plan,
                  const Crash& crash) {
  const std::string path = (std::filesystem::path(arguments.common.report_folder) /
                            fmt::format("crash-{}.json", crash.case_number))
                               .string();
  const bool written =
      write_text(path, trace::write_scenario(campaign_case(plan, crash.case_number))).ok();
  std::fprintf(stderr, "lockstep: bug: case %llu of seed %llu: %s%s%s\n",
               static_cast<unsigned long long>(crash.case_number),
               static_cast<unsigned long long>(plan.seed), crash.how.c_str(),
               written ? "; ./lockstep run --scenario " : "", written ? path.c_str() : "");
}

struct Budget {
  Stopwatch watch;
  std::optional<double> time_s, timeout_s;
  bool timed_out() const { return timeout_s && watch.seconds() > *timeout_s; }
  bool left() const {
    return interrupted == 0 && !timed_out() && (!time_s || watch.seconds() < *time_s);
  }
};

base::Result<CampaignPlan> plan_of(const CampaignArguments& arguments, CampaignIdentity& identity,
                                   Budget& budget, const ProgressLine& progress) {
  CampaignPlan plan;
  plan.seed = arguments.common.seed;
  plan.jobs = arguments.jobs;
  plan.stop_at_keys = arguments.stop;
  LS_ASSIGN(plan.shard, parse_shard(arguments.shard));
  if (!arguments.time.empty()) {
    LS_ASSIGN(budget.time_s, parse_duration("--time", arguments.time));
  } else if (arguments.cases == 0) {
    budget.time_s = 60;
  }
  if (!arguments.timeout.empty()) {
    LS_ASSIGN(budget.timeout_s, parse_duration("--timeout", arguments.timeout));
  }
  if (arguments.cases > 0) plan.cases = arguments.cases;
  plan.more = [&budget] { return budget.left(); };
  plan.progress = [&progress](const std::string& text) { progress.show(text); };
  identity = {plan.seed, plan.cases, plan.shard, plan.batch_cases, "", program_hash()};
  LS_TRY(read_bases(arguments, plan, identity));
  // What is given runs whole.
  if (plan.cases)
    identity.cases = plan.cases = std::max<std::uint64_t>(*plan.cases, plan.bases.size());
  return plan;
}

// A folder that nobody asked for is not left behind where there is nothing to say.
void tidy_up(const CampaignArguments& arguments, const std::string& path) {
  if (arguments.report_wanted) return;
  std::error_code error;
  std::filesystem::remove(path, error);
  std::filesystem::remove(arguments.common.report_folder, error);  // if it is empty
}

base::Result<int> execute(CampaignArguments& arguments) {
  Budget budget;
  const ProgressLine progress(arguments.common);
  CampaignIdentity identity;
  LS_ASSIGN(const CampaignPlan plan, plan_of(arguments, identity, budget, progress));
  const ScenarioRunner run = ledger_runner();
  std::string canary;
  if (!canary_sings(run, canary)) {
    std::fprintf(stderr, "lockstep: bug: %s: no campaign by laws that sleep\n", canary.c_str());
    return kExitBug;
  }
  const std::string path =
      (std::filesystem::path(arguments.common.report_folder) / "campaign.jsonl").string();
  CampaignRecord record;
  LS_ASSIGN(CampaignFile file, CampaignFile::open(path, identity, record));
  auto* const former = signal(SIGINT, note_interrupt);
  const base::Result<CampaignOutcome> outcome = run_campaign(plan, run, &file, record);
  signal(SIGINT, former);
  if (!outcome) return outcome.error();
  const bool stopped_early = interrupted != 0 || budget.timed_out();
  if (outcome->complete && !stopped_early) LS_TRY(file.finish(outcome->batches));
  CampaignReport report;
  report.command = "campaign";
  report.seed = plan.seed;
  report.tally = outcome->tally;
  report.resumed = outcome->resumed;
  report.canary = canary;
  report.head = fmt::format("ledger campaign, {} job{}", plan.jobs, plan.jobs == 1 ? "" : "s");
  for (const std::string& key : keys_in_order(report.tally)) {
    if (report.findings.size() == kMinimizedKeysMax) break;
    progress.show("minimizing " + key);
    report.findings.push_back(shrink_apart(arguments, plan, key, report.tally.keys.at(key)));
  }
  progress.show("");
  report.repeat = repeat_command(arguments, *outcome);
  report.seconds = budget.watch.seconds();
  LS_TRY(print_campaign(report, arguments.common));
  if (arguments.report_wanted || !report.tally.keys.empty()) {
    LS_TRY(write_campaign(report, arguments.common.report_folder));
  }
  if (outcome->crash) report_crash(arguments, plan, *outcome->crash);
  if (!report.tally.keys.empty()) return 1;
  if (outcome->crash) return kExitBug;
  if (budget.timed_out()) return kExitTimeout;
  if (interrupted != 0) return kExitInterrupted;
  tidy_up(arguments, path);
  return exit_status(campaign_verdict(report.tally));
}

}  // namespace

void add_campaign(CommandLine& program) {
  auto arguments = std::make_shared<CampaignArguments>();
  CampaignArguments& a = *arguments;
  const Command command =
      program.command("campaign", "many scenarios from seeds, with faults, on the ledger");
  add_common(command, a.common);
  command.option("--cases", a.cases, "how many scenarios (default: as --time allows)");
  command.option("--time", a.time, "a budget: 60s, 10m, 2h (default 60s without --cases)");
  command.option("--timeout", a.timeout, "a hard limit; exit status 124");
  command.option("--jobs", a.jobs, "child processes").in_range(1, 1024).shows_default();
  command.option("--shard", a.shard, "i/n: this part of the cases").shows_default();
  command.option("--from", a.from,
                 "scenarios and traces, or folders of them: they and changed ones are run");
  command.option("--stop", a.stop, "stop after so many different findings (0: never)");
  command.option("--minimize", a.runs, "most runs to shrink one finding").shows_default();
  command.option("--report", a.common.report_folder, "folder for the record and findings")
      .shows_default();
  command.option("--planted", a.common.planted,
                 "run with a planted fault of ci/planted (in a checkout); stops at the first "
                 "finding");
  command.body([arguments, command] {
    arguments->report_wanted = command.given("--report");
    if (!arguments->common.planted.empty() && !command.given("--stop")) arguments->stop = 1;
    return execute(*arguments);
  });
}

}  // namespace lockstep::harness
