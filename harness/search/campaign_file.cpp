#include "harness/search/campaign_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/prng.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "lockstep.campaign/1";

json identity_json(const CampaignIdentity& identity) {
  return {{"schema", kSchema},
          {"seed", identity.seed},
          {"cases", identity.cases ? json(*identity.cases) : json(nullptr)},
          {"shard", {identity.shard.index, identity.shard.count}},
          {"batch", identity.batch_cases},
          {"from", identity.from},
          {"program", identity.program}};
}

base::Error line_error(const std::string& path, std::size_t line, const std::string& rule) {
  return {base::ErrorKind::Input, path, {}, fmt::format("line {}", line), rule};
}

base::Status read_head(const json& value, const std::string& path, CampaignIdentity& identity) {
  try {
    if (value.at("schema") != kSchema)
      return line_error(path, 1, "schema is not " + std::string(kSchema));
    identity.seed = value.at("seed").get<std::uint64_t>();
    if (!value.at("cases").is_null()) identity.cases = value.at("cases").get<std::uint64_t>();
    identity.shard.index = value.at("shard").at(0).get<std::uint32_t>();
    identity.shard.count = value.at("shard").at(1).get<std::uint32_t>();
    identity.batch_cases = value.at("batch").get<std::uint64_t>();
    identity.from = value.at("from").get<std::string>();
    identity.program = value.at("program").get<std::string>();
  } catch (const json::exception& error) {  // the library throws
    return line_error(path, 1, error.what());
  }
  if (identity.shard.index < 1 || identity.shard.index > identity.shard.count ||
      identity.batch_cases == 0) {
    return line_error(path, 1, "a shard i/n has 1 <= i <= n, a batch at least one case");
  }
  return base::Ok{};
}

base::Status read_line(const json& value, const std::string& path, std::size_t line,
                       CampaignRecord& record) {
  if (line == 1) return read_head(value, path, record.identity);
  const auto number = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto at = value.find(name);
    if (at == value.end() || !at->is_number_unsigned()) return std::nullopt;
    return at->get<std::uint64_t>();
  };
  if (value.is_object() && value.contains("done")) {
    record.done = number("batches");
    return record.done ? base::Status(base::Ok{}) : line_error(path, line, "no `batches`");
  }
  const std::optional<std::uint64_t> batch = value.is_object() ? number("batch") : std::nullopt;
  if (!batch) return line_error(path, line, "neither a batch nor the end");
  LS_ASSIGN(Tally tally, parse_tally(value, path, fmt::format("line {}", line)));
  record.batches.insert_or_assign(*batch, std::move(tally));
  return base::Ok{};
}

// What is left of another campaign that was not done: never lost.
base::Status put_aside(const std::string& path) {
  const std::filesystem::path old = path;
  for (int i = 1;; ++i) {
    const std::filesystem::path other =
        old.parent_path() /
        fmt::format("{}.{}{}", old.stem().string(), i, old.extension().string());
    std::error_code error;
    if (std::filesystem::exists(other, error)) continue;
    std::filesystem::rename(old, other, error);
    if (error) return base::environment_error(path, "cannot be renamed: " + error.message());
    return base::Ok{};
  }
}

}  // namespace

bool Shard::has(std::uint64_t case_number) const {
  return count == 1 || base::Prng(case_number).next() % count == index - 1;
}

base::Result<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  const bool slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = slash ? std::from_chars(first.ptr + 1, end, shard.count) : first;
  if (!slash || second.ec != std::errc() || second.ptr != end || shard.index < 1 ||
      shard.index > shard.count) {
    return base::input_error("--shard", "must be i/n with 1 <= i <= n, not " + text);
  }
  return shard;
}

base::Result<CampaignRecord> read_campaign(const std::string& path, std::uint64_t* good_bytes) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return base::environment_error(path, "cannot be read");
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  CampaignRecord record;
  std::size_t line = 0, at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    ++line;
    const json value = json::parse(text.begin() + static_cast<std::ptrdiff_t>(at),
                                   text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (value.is_discarded()) {
      // Only what was being written when it was killed may be broken.
      if (end + 1 == text.size() && line > 1) break;
      return line_error(path, line, "no JSON");
    }
    LS_TRY(read_line(value, path, line, record));
  }
  if (line == 0) return line_error(path, 1, "no campaign's file: it has no whole line");
  if (good_bytes != nullptr) *good_bytes = at;
  return record;
}

base::Result<CampaignFile> CampaignFile::open(const std::string& path,
                                              const CampaignIdentity& identity,
                                              CampaignRecord& record) {
  record = CampaignRecord{identity, {}, {}};
  bool goes_on = false;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::uint64_t good_bytes = 0;
    base::Result<CampaignRecord> former = read_campaign(path, &good_bytes);
    if (former && former->done) {
      std::filesystem::remove(path, error);
    } else if (former && identity_json(former->identity) == identity_json(identity)) {
      record = *std::move(former);
      goes_on = true;
      std::filesystem::resize_file(path, good_bytes, error);
      if (error) return base::environment_error(path, "cannot be cut: " + error.message());
    } else {
      LS_TRY(put_aside(path));
    }
  } else {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  }
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return base::environment_error(path, std::string("cannot be written: ") + strerror(errno));
  }
  CampaignFile opened(path, file);
  if (!goes_on) LS_TRY(opened.write_line(identity_json(identity)));
  return base::Result<CampaignFile>(std::move(opened));
}

CampaignFile::CampaignFile(CampaignFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

CampaignFile::~CampaignFile() {
  if (file_ >= 0) close(file_);
}

base::Status CampaignFile::write_line(const json& line) {
  const std::string text = line.dump() + "\n";
  // One write: after a kill a line is there, or torn at the file's end.
  if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return base::environment_error(path_, std::string("cannot be written: ") + strerror(errno));
  }
  return base::Ok{};
}

base::Status CampaignFile::add(std::uint64_t batch, const Tally& tally) {
  json line = tally_json(tally);
  line["batch"] = batch;
  return write_line(line);
}

base::Status CampaignFile::finish(std::uint64_t batches) {
  return write_line({{"done", true}, {"batches", batches}});
}

}  // namespace lockstep::harness
