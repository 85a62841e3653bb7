// token_identity: every token is the chained double reference's, or the two are a near tie: all
// operations behind it passed their local laws (where operations are tapped; the report says where
// not) and the reference's margin is within 10 sigma of the yardstick (docs/bounds.md). A larger
// margin is unexplained, or explained by an earlier finding.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

constexpr double kNearTieSigmas =
    10;  // largest difference of differences seen: 5.9 (docs/bounds.md)

class TokenIdentity : public Oracle {
 public:
  std::string_view law() const override { return "token_identity"; }

  void on_event(const trace::Event& event) override {
    if (const auto* sampled = std::get_if<trace::TokenSampled>(&event)) {
      sampled_[{sampled->request, sampled->position}] = sampled->argmax;
    } else if (const auto* reference = std::get_if<trace::TokenReferenced>(&event)) {
      referenced_[{reference->request, reference->position}] = *reference;
    }
  }

  Verdict finish(const std::vector<Verdict>& earlier) override {
    std::string culprit;
    bool locally_judged = false;
    for (const Verdict& verdict : earlier) {
      const bool local = verdict.law == "op_bounds" || verdict.law == "links";
      if (verdict.law == "op_bounds" && verdict.kind != VerdictKind::NotApplicable) {
        locally_judged = true;
      }
      if (local && !verdict.findings.empty() && culprit.empty()) {
        culprit = verdict.findings.front().key;
      }
    }
    std::uint64_t checked = 0, equal = 0;
    for (const auto& [row, token] : sampled_) {
      const auto found = referenced_.find(row);
      if (found == referenced_.end()) continue;
      ++checked;
      if (token == found->second.argmax) {
        ++equal;
      } else {
        judge_flip(row, token, found->second, culprit, locally_judged);
      }
    }
    Verdict verdict =
        verdict_of(law(), checked, "tokens", findings_,
                   sampled_.empty() ? "no token was sampled" : "the chained reference did not run");
    verdict.where = summary(equal, checked);
    if (near_ties_ > 0 && !locally_judged) verdict.where += ", operations not tapped";
    return verdict;
  }

 private:
  void judge_flip(trace::RowId row, trace::TokenId token, const trace::TokenReferenced& reference,
                  const std::string& culprit, bool locally_judged) {
    const double bound = kNearTieSigmas * reference.sigma;
    if (culprit.empty() && reference.margin <= bound) {
      ++near_ties_;
      if (reference.margin >= tie_margin_) {
        tie_margin_ = reference.margin;
        tie_row_ = row;
      }
      return;
    }
    bool is_new = false;
    Finding& finding = findings_.add(
        culprit.empty() ? "token_identity.unexplained" : "token_identity.wrong", is_new);
    if (!is_new) return;
    finding.where = {row.request.value, {}, "argmax", row.position, token};
    finding.got = token;
    finding.want = reference.argmax;
    finding.message = fmt::format(
        "prompt {}, position {}: token {}, the reference's {}; margin {:.3g}, 10 sigma {:.3g}; {}",
        row.request.value + 1, row.position, token, reference.argmax, reference.margin, bound,
        culprit.empty() ? (locally_judged ? "all local laws pass: something runs untapped"
                                          : "no operation was tapped, so nothing explains it")
                        : "explained by " + culprit);
  }

  std::string summary(std::uint64_t equal, std::uint64_t checked) const {
    if (equal + near_ties_ < checked) {
      return fmt::format("{} equal, {} near ties, {} differ", equal, near_ties_,
                         checked - equal - near_ties_);
    }
    if (near_ties_ == 0) return fmt::format("{} equal", equal);
    return fmt::format("{} equal, {} near tie{} (prompt {}, margin {:.2g})", equal, near_ties_,
                       near_ties_ == 1 ? "" : "s", tie_row_.request.value + 1, tie_margin_);
  }

  std::map<trace::RowId, trace::TokenId> sampled_;
  std::map<trace::RowId, trace::TokenReferenced> referenced_;
  FindingList findings_;
  std::uint64_t near_ties_ = 0;
  double tie_margin_ = 0;
  trace::RowId tie_row_;
};

}  // namespace

std::unique_ptr<Oracle> token_identity() { return std::make_unique<TokenIdentity>(); }

}  // namespace lockstep::oracles
