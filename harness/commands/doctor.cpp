// lockstep doctor: what this machine has, and which commands work. Changes nothing.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "device/device.h"
#include "harness/commands/commands.h"
#include "harness/paths.h"
#include "kernels/kernel_set.h"

namespace lockstep::harness {
namespace {

struct Item {
  std::string name, value;
  bool present = true;
  std::string needed_for;  // what does not work without it
};

// First line that a program prints, or nothing.
std::string first_line(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"),
                                                   pclose);
  if (!pipe) return {};
  char line[256];
  if (!std::fgets(line, sizeof line, pipe.get())) return {};
  std::string text(line);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

Item tool(const std::string& name, const std::string& command, const std::string& needed_for) {
  const std::string line = first_line(command);
  return {name, line.empty() ? "not found" : line, !line.empty(), needed_for};
}

std::string instruction_sets() {
  std::string text = "x86-64";
  if (__builtin_cpu_supports("avx2")) text += ", avx2";
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) text += ", avx512";
  return text;
}

std::vector<Item> examine() {
  std::vector<Item> items;
  items.push_back(
      {"cpu", fmt::format("{} cores, {}", std::thread::hardware_concurrency(), instruction_sets()),
       true, ""});
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  const double page = static_cast<double>(sysconf(_SC_PAGE_SIZE));
  items.push_back({"memory", fmt::format("{:.1f} GiB", pages * page / (1u << 30)), true, ""});
  items.push_back(tool("g++", "g++ --version", "building"));
  items.push_back(tool("cmake", "cmake --version", "building"));
  items.push_back(tool("ninja", "ninja --version", "building"));
  const char* nvcc = std::getenv("LOCKSTEP_NVCC");
  items.push_back(tool("nvcc", fmt::format("'{}' --version | grep release", nvcc ? nvcc : "nvcc"),
                       "building (pip gets it)"));
  items.push_back(tool("pip", "python3 -m pip --version", "set-up of nvcc and of the demo model"));
  std::string generations;
  for (const std::string& name : device::available()) {
    generations += (generations.empty() ? "" : ", ") + name;
  }
  items.push_back({"devices", generations, !generations.empty(), "run"});
  std::size_t kernel_count = kernels::embedded_ptx().size();
  items.push_back(
      {"kernels", fmt::format("{} PTX modules embedded", kernel_count), kernel_count > 0, "run"});
  const base::Result<std::string> demo = model_path("");
  items.push_back({"demo model", demo ? *demo : "not in the cache", demo.ok(),
                   "run without a model (the wrapper gets it)"});
  items.push_back({"cache", cache_folder(), true, ""});
  return items;
}

int execute(const CommonOptions& options) {
  const std::vector<Item> items = examine();
  if (options.json) {
    nlohmann::json document = {{"schema", "lockstep.doctor/1"},
                               {"version", LOCKSTEP_VERSION},
                               {"verdict", "not_applicable"},
                               {"items", nlohmann::json::array()}};
    for (const Item& item : items) {
      document["items"].push_back({{"name", item.name},
                                   {"value", item.value},
                                   {"present", item.present},
                                   {"needed_for", item.needed_for}});
    }
    std::printf("%s\n", document.dump(1).c_str());
    return 0;
  }
  for (const Item& item : items) {
    std::printf("  %-11s %s\n", item.name.c_str(), item.value.c_str());
    if (!item.present) std::printf("  %-11s needed for: %s\n", "", item.needed_for.c_str());
  }
  const auto present = [&](const char* name) {
    for (const Item& item : items) {
      if (item.name == name) return item.present;
    }
    return false;
  };
  std::printf("\n  commands that work here: logits, vectors, doctor%s\n",
              present("devices") && present("kernels")
                  ? (present("demo model") ? ", run" : ", run MODEL")
                  : "");
  std::printf(
      "  not built in this version: op, campaign, replay, minimize, diff, drift, gate, "
      "mutate, check-server, estimate, merge\n");
  return 0;
}

}  // namespace

void add_doctor(CommandLine& program) {
  auto options = std::make_shared<CommonOptions>();
  const Command command =
      program.command("doctor", "what this machine has, and which commands work");
  add_common(command, *options);
  command.body([options] { return base::Result<int>(execute(*options)); });
}

}  // namespace lockstep::harness
