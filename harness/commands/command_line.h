// The command line as docs/cli.md lays it out. CLI11 parses it; only command_line.cpp includes its
// header, which costs more to compile than any command.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::harness {

// An option or a positional argument of a command. A value that breaks a rule is bad usage.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option in_range(std::uint32_t least, std::uint32_t most) const;
  Option one_of(std::vector<std::string> words) const;
  Option required() const;
  Option one_value_each() const;  // of a list: each further value has the option's name before it
  Option shows_default() const;   // in --help: the value that the variable has now

 private:
  CLI::Option* option_;
};

class Command {
 public:
  Command(CLI::App* command, int* status) : command_(command), status_(status) {}

  // NAME "--seed": an option; "file": a positional argument. The value is left in `value`.
  Option option(const std::string& name, std::string& value, const std::string& help) const;
  Option option(const std::string& name, std::vector<std::string>& value,
                const std::string& help) const;
  Option option(const std::string& name, std::uint32_t& value, const std::string& help) const;
  Option option(const std::string& name, std::uint64_t& value, const std::string& help) const;
  Option option(const std::string& name, std::int64_t& value, const std::string& help) const;
  Option option(const std::string& name, double& value, const std::string& help) const;
  void flag(const std::string& name, bool& value, const std::string& help) const;

  // Whether the option was given; in the body only.
  bool given(const std::string& name) const;
  // What the command does. Its result is the exit status; an Error is printed and gives its own.
  void body(std::function<base::Result<int>()> body) const;

 private:
  CLI::App* command_;
  int* status_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help, const std::string& version);
  ~CommandLine();

  Command command(const std::string& name, const std::string& help);
  bool has(const std::string& name) const;
  // Parses, runs the command that was asked for, and returns the exit status.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> program_;
  int status_ = 0;
};

}  // namespace lockstep::harness
