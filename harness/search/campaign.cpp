#include "harness/search/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/search/generate.h"

namespace lockstep::harness {
namespace {

using trace::Scenario;

class Campaign {
 public:
  Campaign(const CampaignPlan& plan, const ScenarioRunner& run, CampaignFile* file,
           const CampaignRecord& record)
      : plan_(plan), run_(run), file_(file), batches_(record.batches) {
    for (const auto& [batch, tally] : batches_) outcome_.resumed += tally.cases;
    advance();
  }

  base::Result<CampaignOutcome> run() {
    WorkerJobs jobs;
    jobs.count = std::max(1u, plan_.jobs);
    jobs.next = [this] { return next_batch(); };
    jobs.work = [this](std::uint64_t batch, const auto& begin) { return work(batch, begin); };
    jobs.done = [this](std::uint64_t batch, std::string text) { return take(batch, text); };
    outcome_.crash = run_jobs(jobs);
    if (failure_) return *failure_;
    outcome_.complete = !outcome_.crash && (stopped_ || frontier_ >= handed_out_);
    if (plan_.cases && !stopped_) outcome_.complete &= frontier_ >= batch_count();
    outcome_.batches = frontier_;
    return std::move(outcome_);
  }

 private:
  std::uint64_t batch_count() const {
    return (plan_.cases.value_or(0) + plan_.batch_cases - 1) / plan_.batch_cases;
  }
  std::uint64_t base_batches() const {
    return (plan_.bases.size() + plan_.batch_cases - 1) / plan_.batch_cases;
  }

  std::optional<std::uint64_t> next_batch() {
    if (stopped_ || failure_) return std::nullopt;
    while (batches_.contains(handed_out_)) ++handed_out_;
    if (plan_.cases && handed_out_ >= batch_count()) return std::nullopt;
    if (handed_out_ >= base_batches() && !plan_.more()) return std::nullopt;
    return handed_out_++;
  }

  // In a child.
  std::string work(std::uint64_t batch, const std::function<void(std::uint64_t)>& begin) const {
    Tally tally;
    const std::uint64_t first = batch * plan_.batch_cases;
    const std::uint64_t end =
        std::min(first + plan_.batch_cases, plan_.cases.value_or(first + plan_.batch_cases));
    ScenarioRunOptions options;
    options.snapshots_and_steps = false;
    for (std::uint64_t number = first; number < end; ++number) {
      if (!plan_.shard.has(number)) continue;
      begin(number);
      const base::Result<ScenarioOutcome> outcome = run_(campaign_case(plan_, number), options);
      if (outcome) {
        tally.add(number, *outcome);
      } else if (!plan_.bases.empty() && outcome.error().kind == base::ErrorKind::Unsupported) {
        ++tally.not_built;
      } else {
        // What the generator makes can be run: else it is a bug of ours.
        std::fprintf(stderr, "lockstep: bug: case %llu of seed %llu: %s\n",
                     static_cast<unsigned long long>(number),
                     static_cast<unsigned long long>(plan_.seed),
                     outcome.error().message().c_str());
        std::_Exit(3);
      }
    }
    return tally_json(tally).dump();
  }

  // In the parent. False: hand out no more.
  bool take(std::uint64_t batch, const std::string& text) {
    base::Result<Tally> tally =
        parse_tally(nlohmann::json::parse(text, nullptr, false), "a worker's answer", "");
    LS_CHECK(tally.ok(), tally ? "" : tally.error().message());
    if (file_ != nullptr) {
      if (const base::Status status = file_->add(batch, *tally); !status) {
        failure_ = status.error();
        return false;
      }
    }
    batches_.insert_or_assign(batch, *std::move(tally));
    advance();
    if (plan_.progress) {
      plan_.progress(fmt::format("campaign: {} cases, {} steps, {} findings", outcome_.tally.cases,
                                 outcome_.tally.steps, outcome_.tally.keys.size()));
    }
    return !stopped_;
  }

  // Adds up batches in order, as far as they are there: so the outcome does not depend on which
  // worker was faster.
  void advance() {
    for (auto at = batches_.find(frontier_); !stopped_ && at != batches_.end();
         at = batches_.find(frontier_)) {
      outcome_.tally.add(at->second);
      ++frontier_;
      stopped_ = plan_.stop_at_keys > 0 && outcome_.tally.keys.size() >= plan_.stop_at_keys;
    }
  }

  const CampaignPlan& plan_;
  const ScenarioRunner& run_;
  CampaignFile* file_;
  std::map<std::uint64_t, Tally> batches_;
  std::uint64_t handed_out_ = 0, frontier_ = 0;
  bool stopped_ = false;
  CampaignOutcome outcome_;
  std::optional<base::Error> failure_;
};

}  // namespace

Scenario campaign_case(const CampaignPlan& plan, std::uint64_t number) {
  if (number < plan.bases.size()) return plan.bases[number];
  if (!plan.bases.empty()) {
    return mutated(plan.bases[number % plan.bases.size()], plan.seed, number);
  }
  return generate(plan.seed, number);
}

base::Result<CampaignOutcome> run_campaign(const CampaignPlan& plan, const ScenarioRunner& run,
                                           CampaignFile* file, const CampaignRecord& record) {
  return Campaign(plan, run, file, record).run();
}

}  // namespace lockstep::harness
