#include "harness/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/commands/commands.h"

namespace lockstep::harness {

Option Option::in_range(std::uint32_t least, std::uint32_t most) const {
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::one_of(std::vector<std::string> words) const {
  return Option(option_->check(CLI::IsMember(std::move(words))));
}

Option Option::required() const { return Option(option_->required()); }

Option Option::one_value_each() const { return Option(option_->allow_extra_args(false)); }

Option Option::shows_default() const { return Option(option_->capture_default_str()); }

Option Command::option(const std::string& name, std::string& value, const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

Option Command::option(const std::string& name, std::vector<std::string>& value,
                       const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

Option Command::option(const std::string& name, std::uint32_t& value,
                       const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

Option Command::option(const std::string& name, std::uint64_t& value,
                       const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

Option Command::option(const std::string& name, std::int64_t& value,
                       const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

Option Command::option(const std::string& name, double& value, const std::string& help) const {
  return Option(command_->add_option(name, value, help));
}

void Command::flag(const std::string& name, bool& value, const std::string& help) const {
  command_->add_flag(name, value, help);
}

bool Command::given(const std::string& name) const { return command_->count(name) > 0; }

void Command::body(std::function<base::Result<int>()> body) const {
  command_->callback([body = std::move(body), status = status_] {
    const base::Result<int> result = body();
    *status = result ? *result : report_error(result.error());
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& help,
                         const std::string& version)
    : program_(std::make_unique<CLI::App>(help, name)) {
  program_->set_version_flag("--version", version);
  program_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

Command CommandLine::command(const std::string& name, const std::string& help) {
  return {program_->add_subcommand(name, help), &status_};
}

bool CommandLine::has(const std::string& name) const {
  const auto commands = program_->get_subcommands([](const CLI::App*) { return true; });
  return std::ranges::any_of(commands,
                             [&](const CLI::App* command) { return command->get_name() == name; });
}

int CommandLine::run(int argc, char** argv) {
  try {
    program_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program_->exit(error) == 0 ? 0 : 2;
  }
  return status_;
}

}  // namespace lockstep::harness
