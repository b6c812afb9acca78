#include "bench/bench_suite.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/text/text.h"
#include "collective/schedule.h"

namespace tessera {
namespace {

constexpr std::array kMeasured = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                  CollectiveOp::kAllGather, CollectiveOp::kBroadcast,
                                  CollectiveOp::kAllToAll,  CollectiveOp::kReduce,
                                  CollectiveOp::kGather,    CollectiveOp::kScatter};
constexpr int kMostRanks = 1024;
constexpr int64_t kSizeStep = 4;
constexpr int64_t kLargestSize = int64_t{1} << 40;

template <typename Range>
std::string names(const Range& known) {
  std::string text;
  for (const auto& item : known)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(item));
  return text;
}

template <typename Range>
auto parse_name(std::string_view flag, std::string_view text, const Range& known) {
  for (const auto& item : known) {
    if (name_of(item) == text) return item;
  }
  throw ConfigError(fmt::format("{} has '{}': use {}", flag, text, names(known)));
}

template <typename Enum, size_t kCount>
std::array<Enum, kCount> all_of() {
  std::array<Enum, kCount> items;
  for (size_t i = 0; i < kCount; ++i) items[i] = static_cast<Enum>(i);
  return items;
}

std::vector<CollectiveOp> parse_ops(const std::string& text) {
  if (text == "all") return {kMeasured.begin(), kMeasured.end()};
  std::vector<CollectiveOp> ops;
  for (const std::string_view word : split(text, ',')) {
    ops.push_back(parse_name("--op", word, kMeasured));
  }
  return ops;
}

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  for (const std::string_view word : split(text, ',')) {
    int number = 0;
    const auto [stop, error] = std::from_chars(word.begin(), word.end(), number);
    const bool ok = error == std::errc() && stop == word.end() && number >= 1;
    require_config(ok && number <= kMostRanks,
                   "--ranks has '{}': expected whole numbers from 1 to {}, such as 2,4", word,
                   kMostRanks);
    ranks.push_back(number);
  }
  return ranks;
}

int64_t parse_size(std::string_view text) {
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.begin(), text.end(), number);
  const std::string_view unit(stop, static_cast<size_t>(text.end() - stop));
  int64_t scale = 0;
  if (unit.empty()) scale = 1;
  if (unit == "K" || unit == "k") scale = int64_t{1} << 10;
  if (unit == "M" || unit == "m") scale = int64_t{1} << 20;
  if (unit == "G" || unit == "g") scale = int64_t{1} << 30;
  const bool ok =
      error == std::errc() && scale > 0 && number >= 1 && number <= kLargestSize / scale;
  require_config(ok, "--sizes has '{}': expected bytes such as 1000, 64K, 4M or 1G", text);
  return number * scale;
}

BenchSuite::Place parse_place(const BenchCommOptions& options) {
  require_config(!options.in_place || !options.out_of_place,
                 "--in-place and --out-of-place exclude each other: give one, or none for what "
                 "each op is usually measured with");
  if (options.in_place) return BenchSuite::Place::kIn;
  return options.out_of_place ? BenchSuite::Place::kOut : BenchSuite::Place::kUsual;
}

bool is_integer(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
}

void require_algorithm(const BenchSuite& plan) {
  if (plan.algorithm == Algorithm::kAuto) return;
  for (const CollectiveOp op : plan.ops) {
    const std::vector<Algorithm> known = algorithms_of(plan.backend, op);
    require_config(!known.empty(), "--algo is {}, but {} chooses alone: use auto",
                   name_of(plan.algorithm), name_of(plan.backend));
    require_config(std::find(known.begin(), known.end(), plan.algorithm) != known.end(),
                   "--algo is {}, which {} does not have on {}: use auto, {} (--algo list shows "
                   "all)",
                   name_of(plan.algorithm), name_of(op), name_of(plan.backend), names(known));
  }
}

}  // namespace

std::string_view name_of(BenchBackend backend) {
  constexpr std::string_view kNames[] = {"shm", "local", "mpi", "nccl"};
  return kNames[static_cast<int>(backend)];
}

std::vector<int64_t> parse_sizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string_view word : split(text, ',')) {
    const size_t dash = word.find('-');
    const int64_t first = parse_size(word.substr(0, dash));
    const int64_t last = dash == std::string_view::npos ? first : parse_size(word.substr(dash + 1));
    require_config(first <= last, "--sizes has '{}': the first size is larger than the last", word);
    for (int64_t size = first; size <= last; size *= kSizeStep) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<Algorithm> algorithms_of(BenchBackend backend, CollectiveOp op) {
  if (backend == BenchBackend::kNccl) return {};
  const std::span<const Algorithm> known = supported_algorithms(op);
  return {known.begin(), known.end()};
}

BenchSuite parse_bench_suite(const BenchCommOptions& options) {
  BenchSuite plan;
  plan.ops = parse_ops(options.op);
  plan.ranks = parse_ranks(options.ranks);
  plan.sizes = parse_sizes(options.sizes);
  plan.backend =
      parse_name("--backend", options.backend, all_of<BenchBackend, kNumBenchBackends>());
  plan.algorithm = parse_name("--algo", options.algorithm, all_of<Algorithm, kNumAlgorithms>());
  plan.dtype = parse_name("--dtype", options.dtype, all_of<DType, kNumDTypes>());
  plan.reduce = parse_name("--reduce", options.reduce, all_of<ReduceOp, kNumReduceOps>());
  plan.place = parse_place(options);
  plan.sweep = {.budget_s = options.budget_s, .touch = options.touch, .corrupt = options.corrupt};
  require_config(plan.reduce != ReduceOp::kMean || !is_integer(plan.dtype),
                 "--reduce is mean and --dtype {}: integers have no mean; use sum, or a "
                 "floating-point type",
                 name_of(plan.dtype));
  require_algorithm(plan);
  return plan;
}

std::vector<BenchCase> BenchSuite::cases(CollectiveOp op, int num_ranks) const {
  BenchCase shape;
  shape.op = op;
  shape.reduce = reduce;
  shape.dtype = dtype;
  shape.algorithm = algorithm;
  shape.ranks = num_ranks;
  shape.in_place =
      place == Place::kIn || (place == Place::kUsual && op == CollectiveOp::kAllReduce);
  if (!has_in_place_choice(op)) shape.in_place = true;
  std::vector<BenchCase> cases;
  for (const int64_t size : sizes) cases.push_back(case_of_size(shape, size));
  return cases;
}

int64_t BenchSuite::largest_array_bytes(CollectiveOp op, int num_ranks) const {
  return cases(op, num_ranks).back().array_bytes();
}

std::vector<std::string> BenchSuite::arguments(CollectiveOp op, int num_ranks) const {
  std::string all_sizes;
  for (const int64_t size : sizes) {
    all_sizes += fmt::format("{}{}", all_sizes.empty() ? "" : ",", size);
  }
  std::vector<std::string> words = {"bench",     "comm",
                                    "--op",      std::string(name_of(op)),
                                    "--ranks",   std::to_string(num_ranks),
                                    "--sizes",   all_sizes,
                                    "--backend", std::string(name_of(backend)),
                                    "--algo",    std::string(name_of(algorithm)),
                                    "--dtype",   std::string(name_of(dtype)),
                                    "--reduce",  std::string(name_of(reduce)),
                                    "--budget",  fmt::format("{}", sweep.budget_s)};
  if (place == Place::kIn) words.emplace_back("--in-place");
  if (place == Place::kOut) words.emplace_back("--out-of-place");
  if (sweep.touch) words.emplace_back("--touch");
  if (sweep.corrupt) words.emplace_back("--corrupt");
  return words;
}

}  // namespace tessera
