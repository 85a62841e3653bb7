#include "harness/prompts.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/prng.h"

namespace lockstep::harness {
namespace {

constexpr std::uint32_t kDefaultSteps = 16;
constexpr const char* kDefaultPrompts[] = {
    "The capital of France is", "def fibonacci(n):", "1, 1, 2, 3, 5, 8,", "Once upon a time"};

base::Result<trace::RequestSpec> from_text(const model::Model& model, const std::string& text) {
  if (!model.tokenizer) {
    return base::input_error(model.path, "a text prompt needs a tokenizer; give --tokens");
  }
  trace::RequestSpec spec;
  spec.prompt_text = text;
  spec.prompt = model.tokenizer->prefix();
  const std::vector<model::TokenId> encoded = model.tokenizer->encode(text);
  spec.prompt.insert(spec.prompt.end(), encoded.begin(), encoded.end());
  if (spec.prompt.empty()) return base::input_error("--prompt", "an empty prompt has no token");
  return spec;
}

base::Result<std::vector<trace::TokenId>> tokens_of_json(const nlohmann::json& array,
                                                         const std::string& file,
                                                         const std::string& where,
                                                         std::uint32_t vocab_size) {
  std::vector<trace::TokenId> tokens;
  for (const auto& entry : array) {
    if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() >= vocab_size) {
      return base::Error{base::ErrorKind::Input,
                         file,
                         {},
                         where,
                         "a token must be an integer below " + std::to_string(vocab_size)};
    }
    tokens.push_back(entry.get<trace::TokenId>());
  }
  if (tokens.empty()) {
    return base::Error{base::ErrorKind::Input, file, {}, where, "must hold at least one token"};
  }
  return tokens;
}

base::Result<trace::RequestSpec> from_json_line(const model::Model& model, const std::string& line,
                                                const std::string& file, std::size_t number,
                                                std::uint32_t steps) {
  const std::string where = "line " + std::to_string(number);
  const auto wrong = [&](const std::string& field, const std::string& rule) {
    return base::Error{base::ErrorKind::Input, file, {}, where + ": /" + field, rule};
  };
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return base::input_error(file, where + ": must be a JSON object");
  trace::RequestSpec spec;
  bool has_prompt = false;
  spec.max_tokens = steps;
  for (const auto& [field, value] : object.items()) {
    if (field == "prompt") {
      if (!value.is_string()) return wrong(field, "must be text");
      LS_ASSIGN(trace::RequestSpec made, from_text(model, value.get<std::string>()));
      spec.prompt = made.prompt;
      spec.prompt_text = made.prompt_text;
      if (has_prompt) return wrong(field, "prompt and tokens exclude each other");
      has_prompt = true;
    } else if (field == "tokens") {
      if (!value.is_array()) return wrong(field, "must be a list of token ids");
      LS_ASSIGN(spec.prompt, tokens_of_json(value, file, where, model.config.vocab_size));
      if (has_prompt) return wrong(field, "prompt and tokens exclude each other");
      has_prompt = true;
    } else if (field == "n") {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 ||
          value.get<std::uint64_t>() > 1u << 20) {
        return wrong(field, "must be a number of tokens, 1 or more");
      }
      spec.max_tokens = value.get<std::uint32_t>();
    } else if (field == "temperature" && value.is_number() && value.get<double>() == 0) {
      continue;  // greedy, as everything is
    } else if (field == "seed" && value.is_number_integer()) {
      continue;  // greedy decoding draws nothing
    } else if (field == "temperature" || field == "top_k" || field == "top_p" || field == "stop" ||
               field == "seed") {
      return base::unsupported_error(file, where + ": /" + field,
                                     "sampling is not built in this version");
    } else {
      return wrong(field, "unknown field");
    }
  }
  if (!has_prompt) return base::input_error(file, where + ": needs prompt or tokens");
  return spec;
}

base::Status read_file(const model::Model& model, const PromptOptions& options, std::uint32_t steps,
                       std::vector<trace::RequestSpec>& requests) {
  std::ifstream stream(options.file, std::ios::binary);
  if (!stream) return base::input_error(options.file, "cannot be opened");
  std::string line;
  const base::Limits limits;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.size() > limits.json_bytes) {
      return base::input_error(options.file,
                               "line " + std::to_string(number) + ": longer than limit json_bytes");
    }
    LS_ASSIGN(trace::RequestSpec spec, from_json_line(model, line, options.file, number, steps));
    requests.push_back(std::move(spec));
  }
  if (requests.empty()) return base::input_error(options.file, "holds no prompt");
  return base::Ok{};
}

}  // namespace

base::Result<std::vector<trace::TokenId>> parse_tokens(const std::string& text,
                                                       const std::string& option,
                                                       std::uint32_t vocab_size) {
  std::vector<trace::TokenId> tokens;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;;) {
    trace::TokenId token = 0;
    const auto [next, error] = std::from_chars(at, end, token);
    if (error != std::errc() || token >= vocab_size) {
      return base::input_error(option, "token " + std::to_string(tokens.size() + 1) + " of '" +
                                           text + "' must be an integer below " +
                                           std::to_string(vocab_size));
    }
    tokens.push_back(token);
    if (next == end) return tokens;
    if (*next != ',') return base::input_error(option, "'" + text + "': tokens, commas between");
    at = next + 1;
  }
}

base::Result<std::vector<trace::RequestSpec>> make_requests(const model::Model& model,
                                                            const PromptOptions& options) {
  const std::uint32_t steps = options.steps ? options.steps : kDefaultSteps;
  std::vector<trace::RequestSpec> requests;
  for (const std::string& text : options.texts) {
    LS_ASSIGN(trace::RequestSpec spec, from_text(model, text));
    requests.push_back(std::move(spec));
  }
  for (const std::string& text : options.tokens) {
    trace::RequestSpec spec;
    LS_ASSIGN(spec.prompt, parse_tokens(text, "--tokens", model.config.vocab_size));
    requests.push_back(std::move(spec));
  }
  for (trace::RequestSpec& spec : requests) spec.max_tokens = steps;
  if (!options.file.empty()) LS_TRY(read_file(model, options, steps, requests));
  if (requests.empty() && model.tokenizer) {
    for (const char* text : kDefaultPrompts) {
      LS_ASSIGN(trace::RequestSpec spec, from_text(model, text));
      spec.max_tokens = steps;
      requests.push_back(std::move(spec));
    }
  } else if (requests.empty()) {
    // No tokenizer: four prompts of random tokens, of ragged lengths.
    base::Prng prng(options.seed);
    for (const std::size_t length : {5, 1, 9, 18}) {
      trace::RequestSpec spec;
      for (std::size_t i = 0; i < length; ++i) {
        spec.prompt.push_back(static_cast<trace::TokenId>(prng.below(model.config.vocab_size)));
      }
      spec.max_tokens = steps;
      requests.push_back(std::move(spec));
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].key = std::to_string(i + 1);
    requests[i].sampling.stop_token_ids = model.config.eos_token_ids;
  }
  return requests;
}

}  // namespace lockstep::harness
