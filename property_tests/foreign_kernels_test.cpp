// Kernels of a compiler that knows nothing of us, on the virtual GPU: its lane layouts (ldmatrix,
// mma.sync, shfl), its copies (cp.async) and its checkers against a second reader of PTX.
//
// LOCKSTEP_FOREIGN_PTX names the folder that ci/foreign_kernels.py fills; without it there is
// nothing to run. Each NAME.json says how NAME.ptx is launched and which law its result obeys.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "device/device.h"

namespace lockstep::property_tests {
namespace {

using Bytes = std::vector<std::byte>;

struct ForeignKernel {
  nlohmann::json manifest;
  std::string ptx;

  std::string name() const {
    return manifest.at("name").get<std::string>() + ".sm_" +
           std::to_string(manifest.at("sm").get<int>());
  }
  std::string operation() const { return manifest.at("operation").get<std::string>(); }
  std::size_t size(const char* key) const { return manifest.at(key).get<std::size_t>(); }
};

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// All kernels of the folder with this operation, in order of their names.
std::vector<ForeignKernel> kernels_of(const char* folder, std::string_view operation) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ForeignKernel> kernels;
  for (std::filesystem::path path : paths) {
    ForeignKernel kernel{nlohmann::json::parse(text_of(path)), {}};
    kernel.ptx = text_of(path.replace_extension(".ptx"));
    if (kernel.operation() == operation) kernels.push_back(std::move(kernel));
  }
  EXPECT_FALSE(kernels.empty()) << "no kernel for " << operation;
  return kernels;
}

#define LS_FOREIGN_FOLDER(folder)                                      \
  const char* const folder = std::getenv("LOCKSTEP_FOREIGN_PTX");      \
  if (folder == nullptr) {                                             \
    GTEST_SKIP() << "LOCKSTEP_FOREIGN_PTX is not set: no foreign PTX"; \
  }

struct Setting {
  device::DeviceOptions options;
  std::string device;
};

// PTX of a generation runs on that one and on every later one.
std::vector<Setting> settings_of(const ForeignKernel& kernel) {
  std::vector<Setting> settings;
  for (const int sm : {80, 90}) {
    if (sm < kernel.manifest.at("sm").get<int>()) continue;
    for (const std::uint64_t seed : {0u, 5u}) {
      device::DeviceOptions options;
      options.schedule_seed = seed;
      options.memory_bytes = std::uint64_t{1} << 26;
      settings.push_back({options, "vgpu:sm_" + std::to_string(sm)});
    }
  }
  return settings;
}

struct Inputs {
  std::vector<std::pair<std::string, Bytes>> buffers;  // by the name of the parameter
  std::string output;
  std::size_t output_bytes = 0;
};

struct Outcome {
  Bytes output;
  std::vector<device::Diagnostic> diagnostics;
};

device::LaunchConfig config_of(const nlohmann::json& manifest) {
  device::LaunchConfig config;
  config.grid = {manifest.at("grid").at(0).get<std::uint32_t>(),
                 manifest.at("grid").at(1).get<std::uint32_t>(), 1};
  config.block = {manifest.at("block").get<std::uint32_t>(), 1, 1};
  config.dynamic_shared_bytes = manifest.at("shared_bytes").get<std::uint32_t>();
  return config;
}

// Buffers are exactly as large as their operands, and the output is not written before.
Outcome run(const ForeignKernel& kernel, const Setting& how, const Inputs& inputs) {
  const auto device = device::open(how.device, how.options).value();
  auto loaded =
      device->load(kernel.ptx, kernel.name(), kernel.manifest.at("entry").get<std::string>());
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.error().message();
    return {Bytes(inputs.output_bytes), {}};
  }
  const device::Buffer output = device->allocate(inputs.output_bytes, inputs.output).value();
  std::vector<std::pair<std::string, device::Buffer>> buffers;
  for (const auto& [name, bytes] : inputs.buffers) {
    buffers.emplace_back(name, device->allocate(bytes.size(), name).value());
    EXPECT_TRUE(device->copy_to_device(buffers.back().second.address(), bytes).ok());
  }
  device::Parameters parameters;
  for (const nlohmann::json& parameter : kernel.manifest.at("parameters")) {
    if (parameter.contains("i32")) {
      parameters.add(parameter.at("i32").get<std::int32_t>());
    } else if (parameter.contains("null")) {
      parameters.add(device::DevicePointer{0});
    } else {
      const auto name = parameter.at("buffer").get<std::string>();
      device::DevicePointer address = output.address();
      for (const auto& [other, buffer] : buffers) {
        if (other == name) address = buffer.address();
      }
      parameters.add(address);
    }
  }
  const base::Status status =
      device->launch(loaded.value(), config_of(kernel.manifest), parameters.bytes());
  EXPECT_TRUE(status.ok()) << status.error().message();
  Outcome outcome{Bytes(inputs.output_bytes), {}};
  EXPECT_TRUE(device->copy_from_device(outcome.output, output.address()).ok());
  outcome.diagnostics = device->take_diagnostics();
  return outcome;
}

void expect_no_diagnostics(const std::vector<device::Diagnostic>& diagnostics) {
  for (const device::Diagnostic& each : diagnostics) {
    ADD_FAILURE() << each.checker << ' ' << each.kind << ": " << each.message << " at "
                  << each.source << ' ' << each.source_second;
  }
}

// Triton lets every lane that holds a copy of a value store it: several lanes of a warp, one store,
// one address, one value. CUDA defines that (one of the writes stays), but the racecheck does not
// compare values and says a race of the store with itself. These are set aside here, all else not.
bool is_redundant_store(const device::Diagnostic& diagnostic) {
  if (diagnostic.checker != "racecheck" || diagnostic.kind != "shared" ||
      diagnostic.source != diagnostic.source_second) {
    return false;
  }
  if (diagnostic.message.find("in one instruction") != std::string::npos) return true;
  static const std::regex kTwoThreads(R"(thread (\d+) .* writes .* which thread (\d+) wrote .*)");
  std::smatch threads;
  return std::regex_match(diagnostic.message, threads, kTwoThreads) &&
         std::stoul(threads[1]) / 32 == std::stoul(threads[2]) / 32;
}

std::vector<device::Diagnostic> without_redundant_stores(
    std::vector<device::Diagnostic> diagnostics) {
  std::erase_if(diagnostics, is_redundant_store);
  return diagnostics;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return Bytes(bytes.begin(), bytes.end());
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A small integer in an element's bits; every element type holds it exactly.
Bytes encode(const std::vector<int>& values, const std::string& element) {
  if (element == "s8") return bytes_of(std::vector<std::int8_t>(values.begin(), values.end()));
  if (element == "tf32") return bytes_of(std::vector<float>(values.begin(), values.end()));
  std::vector<std::uint16_t> halves;
  for (const int value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (element == "bf16") {
      halves.push_back(static_cast<std::uint16_t>(bits >> 16));
    } else {  // f16: 5 bits of exponent with bias 15, 10 of fraction
      const std::uint32_t rebased = (bits & 0x7fffffffu) - ((127u - 15u) << 23);
      const std::uint32_t magnitude = value == 0 ? 0 : rebased >> 13;
      halves.push_back(static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | magnitude));
    }
  }
  return bytes_of(halves);
}

struct Product {
  Inputs inputs;
  std::vector<std::int64_t> expected;  // [m, n]
};

// Operands of at most 8 bits: every partial sum of a row stays below 2^24 (tf32, f16, bf16: below
// 208 * 64), where the tensor cores of every generation are exact, whatever their order.
Product product_of(const ForeignKernel& kernel) {
  const std::size_t m = kernel.size("m"), n = kernel.size("n"), k = kernel.size("k");
  const bool a_transposed = kernel.manifest.at("a_transposed").get<bool>();
  const bool b_transposed = kernel.manifest.at("b_transposed").get<bool>();
  const auto element = kernel.manifest.at("element").get<std::string>();
  const int least = element == "s8" ? -128 : -8, most = element == "s8" ? 127 : 8;
  base::Prng prng(m * 31 + n);
  std::vector<int> a(m * k), b(k * n);
  for (std::vector<int>* operand : {&a, &b}) {
    for (int& value : *operand) {
      value = least + static_cast<int>(prng.below(static_cast<std::uint64_t>(most - least + 1)));
    }
  }
  Product product;
  product.inputs = {{{"a", encode(a, element)}, {"b", encode(b, element)}}, "c", m * n * 4};
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < k; ++i) {
        sum += std::int64_t{a[a_transposed ? i * m + row : row * k + i]} *
               b[b_transposed ? column * k + i : i * n + column];
      }
      product.expected.push_back(sum);
    }
  }
  return product;
}

// How many elements of the product are wrong.
std::size_t wrong_elements(const ForeignKernel& kernel, const Product& product,
                           const Outcome& outcome) {
  std::size_t wrong = 0;
  const bool is_integer = kernel.manifest.at("element").get<std::string>() == "s8";
  const auto floats = values_of<float>(outcome.output);
  const auto integers = values_of<std::int32_t>(outcome.output);
  for (std::size_t i = 0; i < product.expected.size(); ++i) {
    const bool same = is_integer ? integers[i] == product.expected[i]
                                 : floats[i] == static_cast<float>(product.expected[i]);
    if (!same) ++wrong;
  }
  return wrong;
}

TEST(ForeignKernels, MatrixProductsOfIntegersAreExact) {
  LS_FOREIGN_FOLDER(folder);
  for (const ForeignKernel& kernel : kernels_of(folder, "matmul")) {
    const Product product = product_of(kernel);
    for (const Setting& how : settings_of(kernel)) {
      SCOPED_TRACE(kernel.name() + " on " + how.device);
      const Outcome outcome = run(kernel, how, product.inputs);
      expect_no_diagnostics(outcome.diagnostics);
      EXPECT_EQ(wrong_elements(kernel, product, outcome), 0u);
    }
  }
}

// The text with `pattern`'s first match replaced; a text without one is a failure.
ForeignKernel planted(ForeignKernel kernel, const std::string& pattern, const std::string& with) {
  const std::string changed = std::regex_replace(kernel.ptx, std::regex(pattern), with,
                                                 std::regex_constants::format_first_only);
  EXPECT_NE(changed, kernel.ptx) << "nothing to plant for " << pattern;
  kernel.ptx = changed;
  return kernel;
}

// What proves that the test above can fail: one exchanged register of one fragment.
TEST(ForeignKernels, AnExchangedFragmentRegisterSpoilsTheProduct) {
  LS_FOREIGN_FOLDER(folder);
  const std::string load = R"((ldmatrix\S*\s*\{\s*%\w+,\s*)(%\w+)(,\s*)(%\w+))";
  const std::string multiply = R"((mma\.sync[^;{]*\{[^}]*\},\s*\{\s*)(%\w+)(,\s*)(%\w+))";
  for (const ForeignKernel& kernel : kernels_of(folder, "matmul")) {
    const Product product = product_of(kernel);
    for (const std::string& pattern : {load, multiply}) {
      SCOPED_TRACE(kernel.name() + ": " + pattern);
      const Outcome outcome =
          run(planted(kernel, pattern, "$1$4$3$2"), settings_of(kernel)[0], product.inputs);
      EXPECT_GT(wrong_elements(kernel, product, outcome), 0u);
    }
  }
}

// The same copies, no longer waited for: the result may be right, the checkers say it.
TEST(ForeignKernels, ACopyThatIsNotWaitedForIsADiagnostic) {
  LS_FOREIGN_FOLDER(folder);
  const std::regex wait(R"(cp\.async\.wait_group\s+\w+;)");
  for (ForeignKernel kernel : kernels_of(folder, "matmul")) {
    SCOPED_TRACE(kernel.name());
    kernel.ptx = std::regex_replace(kernel.ptx, wait, "cp.async.wait_group 7;");
    const Outcome outcome = run(kernel, settings_of(kernel)[0], product_of(kernel).inputs);
    EXPECT_TRUE(
        std::any_of(outcome.diagnostics.begin(), outcome.diagnostics.end(),
                    [](const device::Diagnostic& each) { return each.kind == "async_copy"; }));
  }
}

// Distinct values of a row in a shuffled order: numbers[i] of 0 .. columns - 1.
std::vector<int> shuffled(std::size_t columns, std::uint64_t seed) {
  std::vector<int> numbers(columns);
  std::iota(numbers.begin(), numbers.end(), 0);
  base::Prng prng(seed);
  for (std::size_t i = columns; i > 1; --i) std::swap(numbers[i - 1], numbers[prng.below(i)]);
  return numbers;
}

// x[row, i]: multiples of 1/128, so that a difference from the maximum is exact. Neighbours differ
// by 0.8 % in their power: a lost, doubled or exchanged term moves the sum out of the bound.
std::vector<float> softmax_operand(const ForeignKernel& kernel) {
  std::vector<float> x;
  for (std::size_t row = 0; row < kernel.size("rows"); ++row) {
    for (const int number : shuffled(kernel.size("columns"), row + 1)) {
      x.push_back(static_cast<float>(number) / 128 - 1);
    }
  }
  return x;
}

// Bound of |y / softmax(x) - 1| with d = x - max, u = 2^-24 and n terms: y = ex2(fl(d L)) / sum,
// L the f32 next to log2(e). Exponent: |d| log2(e) ((1 + |L / log2(e) - 1|) (1 + u) - 1). ex2 and
// div.full: two places from the rounded result (PTX ISA 9.7.3.21, 9.7.3.8), 2.5 2^-23 from the
// exact one. Sum of positive terms in any order: (1 + u)^(n - 1) and as much the other way.
struct SoftmaxBound {
  double largest_distance;
  std::size_t terms;

  static constexpr double kUnit = 0x1p-24, kPlaces = 2.5 * 0x1p-23;
  double power(double distance) const {
    const double log2e = std::numbers::log2e;
    const double constant = std::abs(double{static_cast<float>(log2e)} / log2e - 1);
    const double exponent = distance * log2e * ((1 + constant) * (1 + kUnit) - 1);
    return std::exp2(exponent) * (1 + kPlaces) - 1;
  }
  double relative(double distance) const {
    const double sum = std::pow(1 - kUnit, static_cast<double>(terms - 1));
    return (1 + power(distance)) * (1 + kPlaces) / ((1 - power(largest_distance)) * sum) - 1;
  }
};

// The worst element of all rows in units of its bound: inside where it is at most 1.
double worst_of_softmax(const ForeignKernel& kernel, const std::vector<float>& x,
                        const std::vector<float>& y) {
  const std::size_t columns = kernel.size("columns");
  double worst = 0;
  for (std::size_t start = 0; start < x.size(); start += columns) {
    const std::span row = std::span(x).subspan(start, columns);
    const double largest = *std::max_element(row.begin(), row.end());
    const double least = *std::min_element(row.begin(), row.end());
    double sum = 0;
    for (const float value : row) sum += std::exp(value - largest);
    const SoftmaxBound bound{largest - least, columns};
    for (std::size_t i = 0; i < columns; ++i) {
      const double exact = std::exp(row[i] - largest) / sum;
      const double error = std::abs(y[start + i] / exact - 1) / bound.relative(largest - row[i]);
      worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
    }
  }
  return worst;
}

Inputs row_inputs(const Bytes& x) { return {{{"x", x}}, "y", x.size()}; }

TEST(ForeignKernels, SoftmaxIsInsideItsBoundWhereverTheApproximationsFall) {
  LS_FOREIGN_FOLDER(folder);
  using device::ApproximationMode;
  for (const ForeignKernel& kernel : kernels_of(folder, "softmax")) {
    const std::vector<float> x = softmax_operand(kernel);
    for (Setting how : settings_of(kernel)) {
      for (const ApproximationMode mode : {ApproximationMode::Nominal, ApproximationMode::Low,
                                           ApproximationMode::High, ApproximationMode::Hashed}) {
        SCOPED_TRACE(kernel.name() + " on " + how.device);
        how.options.approximation = mode;
        const Outcome outcome = run(kernel, how, row_inputs(bytes_of(x)));
        expect_no_diagnostics(without_redundant_stores(outcome.diagnostics));
        EXPECT_LE(worst_of_softmax(kernel, x, values_of<float>(outcome.output)), 1);
      }
    }
  }
}

// The last butterfly of the sum asks the lane two places away instead of its neighbour.
TEST(ForeignKernels, AWrongShuffleMaskSpoilsTheSoftmax) {
  LS_FOREIGN_FOLDER(folder);
  const std::string right = ", 1, 31, -1;", wrong = ", 2, 31, -1;";
  for (ForeignKernel kernel : kernels_of(folder, "softmax")) {
    SCOPED_TRACE(kernel.name());
    const std::vector<float> x = softmax_operand(kernel);
    const std::size_t place = kernel.ptx.rfind(right);
    ASSERT_NE(place, std::string::npos);
    kernel.ptx.replace(place, right.size(), wrong);
    const Outcome outcome = run(kernel, settings_of(kernel)[0], row_inputs(bytes_of(x)));
    EXPECT_GT(worst_of_softmax(kernel, x, values_of<float>(outcome.output)), 1);
  }
}

TEST(ForeignKernels, ScansAndSortsAreExact) {
  LS_FOREIGN_FOLDER(folder);
  for (const char* operation : {"scan", "sort"}) {
    for (const ForeignKernel& kernel : kernels_of(folder, operation)) {
      const auto columns = static_cast<std::ptrdiff_t>(kernel.size("columns"));
      std::vector<std::int32_t> x;
      for (std::size_t row = 0; row < kernel.size("rows"); ++row) {
        for (const int number : shuffled(kernel.size("columns"), row + 1)) {
          x.push_back(number * 1009 - 77777);
        }
      }
      std::vector<std::int32_t> expected = x;
      for (auto row = expected.begin(); row != expected.end(); row += columns) {
        if (kernel.operation() == "scan") std::partial_sum(row, row + columns, row);
        if (kernel.operation() == "sort") std::sort(row, row + columns);
      }
      for (const Setting& how : settings_of(kernel)) {
        SCOPED_TRACE(kernel.name() + " on " + how.device);
        const Outcome outcome = run(kernel, how, row_inputs(bytes_of(x)));
        expect_no_diagnostics(without_redundant_stores(outcome.diagnostics));
        EXPECT_EQ(values_of<std::int32_t>(outcome.output), expected);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::property_tests
