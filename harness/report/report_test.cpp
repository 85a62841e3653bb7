// What a run's report and exit status say of requests that memory failed.
#include "harness/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::harness {
namespace {

RunReport report_of(const std::string& finish_reason) {
  RunReport report;
  report.scenario.requests.resize(2);
  DeviceReport device;
  device.device = "vgpu:sm_90";
  device.outcome.outputs.resize(2);
  device.outcome.outputs[0].finish_reason = "length";
  device.outcome.outputs[1].finish_reason = finish_reason;
  oracles::Verdict verdict;
  verdict.law = "kv_pages";
  verdict.kind = oracles::VerdictKind::Pass;
  device.outcome.verdicts = {verdict};
  report.devices = {device};
  return report;
}

TEST(Report, ARequestThatEndedWithAnErrorIsNoPass) {
  const RunReport report = report_of("error");
  EXPECT_EQ(report.exit_status(), 4);
  EXPECT_EQ(json_report(report)["verdict"], "not_applicable");
  const std::string text = text_report(report, {});
  EXPECT_NE(text.find("error: a step did not fit into the device's memory"), std::string::npos);
  EXPECT_NE(text.find("OUT OF MEMORY  1 request ended with an error, 1 laws pass"),
            std::string::npos)
      << text;
}

TEST(Report, AllRequestsToTheirEndsIsAPass) {
  const RunReport report = report_of("length");
  EXPECT_EQ(report.exit_status(), 0);
  EXPECT_EQ(json_report(report)["verdict"], "pass");
  EXPECT_NE(text_report(report, {}).find("PASS  1 laws"), std::string::npos);
}

TEST(Report, AFindingOutweighsIt) {
  RunReport report = report_of("error");
  report.devices[0].outcome.verdicts[0].kind = oracles::VerdictKind::Finding;
  EXPECT_EQ(report.exit_status(), 1);
}

}  // namespace
}  // namespace lockstep::harness
