#include "serve/predict/frame_pricer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/program/instruction_cost.h"
#include "compile/step.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/step/op_time.h"
#include "graph/op_table.h"
#include "serve/predict/frame_rates.h"
#include "serve/predict/frame_terms.h"
#include "sim/replay/cluster_times.h"
#include "sim/replay/measured_times.h"

namespace tessera::serve {
namespace {

// What came out of one frame on one rank of a stage.
struct RankSeconds {
  double products = 0, attention = 0, others = 0, collectives = 0, message = 0;
};

// What decides the work of attention: layers are alike.
auto attention_key(const KernelArgs& a) {
  return std::tuple(a.heads, a.kv_heads, a.head_dim, a.window, a.heads_per_kv, a.first_head,
                    a.first_kv_head);
}

}  // namespace

double FramePrice::total_s() const {
  const double stages = std::accumulate(stage_s.begin(), stage_s.end(), 0.0);
  return stages + message_s * static_cast<double>(stage_s.size() - 1);
}

double FramePrice::slowest_s() const { return *std::max_element(stage_s.begin(), stage_s.end()); }

struct FramePricer::State {
  State(const ServeEstimate& of, const Cluster& on, std::string are)
      : estimate(of),
        cluster(on),
        ranks_are(std::move(are)),
        outline(outline_serving(of.spec, of.options)),
        rates(on.measured),
        measured(rates.has(of.spec.train.dtype)),
        times(on.measured, ranks_are),
        messages(on.measured, "threads") {
    if (measured) return;
    Cluster machine = cluster;
    machine.measured = {};
    engine = find_engine(std::string(kOwnEngine)).numbers;
    constants = std::make_unique<ClusterTimes>(std::move(machine), engine,
                                               estimate.spec.train.dtype, no_contention());
  }

  [[nodiscard]] size_t bucket_of(const FrameLoad& load) const {
    const int64_t tokens = load.tokens();
    const int64_t sequences = std::ssize(load.sequences);
    for (size_t b = 0; b < estimate.buckets.size(); ++b) {
      const FrameBucket& bucket = estimate.buckets[b];
      if (tokens <= bucket.tokens && sequences <= bucket.sequences && load.rows <= bucket.rows) {
        return b;
      }
    }
    TESSERA_CHECK(false, "a frame of {} tokens, {} sequences and {} rows fits no bucket", tokens,
                  sequences, load.rows);
  }

  // The Program of each stage for frames of this size; equal stages have one.
  const std::vector<std::shared_ptr<const Program>>& programs_of(size_t bucket) {
    auto& stages = programs[bucket];
    if (!stages.empty()) return stages;
    const StepGraph step = build_serve_step(
        outline.spec, outline.step_of(estimate.buckets[bucket], estimate.shape.num_pages));
    std::map<std::tuple<int64_t, bool, bool>, std::shared_ptr<const Program>> known;
    for (const StageEstimate& stage : estimate.stages) {
      auto& program = known[{stage.layers, stage.has_embedding, stage.has_head}];
      if (program == nullptr) {
        program = std::make_shared<const Program>(lower(step, stage.first_rank));
      }
      stages.push_back(program);
    }
    return stages;
  }

  // Ranks that compute at the same time, and the threads of all of them.
  struct Company {
    double ranks = 1;
    int threads = 1;
    double slowdown = 1;  // of ranks that must take turns on the cores
    MissShares misses;
  };
  [[nodiscard]] Company company(const std::vector<std::shared_ptr<const Program>>& stages,
                                const FrameLoad& load, int busy_stages) const {
    Company at_work;
    if (!measured) return at_work;
    const int64_t ranks = estimate.stages.front().ranks * busy_stages;
    const int64_t threads = ranks * estimate.options.threads;
    const int cores = cluster.measured.cores;
    at_work.ranks = static_cast<double>(ranks);
    at_work.threads = static_cast<int>(std::min<int64_t>(threads, cores));
    at_work.slowdown = std::max(1.0, static_cast<double>(threads) / cores);
    double bytes = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      bytes += static_cast<double>(estimate.stages[s].ranks) *
               (weight_bytes(*stages[s]) + cache_bytes(*stages[s], load));
    }
    at_work.misses = rates.misses(at_work.threads, bytes);
    return at_work;
  }

  // What ranks read from memory they read at once, through what they share: a team of as many
  // threads, which reads the same in all, takes as long.
  [[nodiscard]] double seconds_on(const Instruction& instruction, DType type, int64_t tokens,
                                  const TimeTerms& units, const Company& at_work) const {
    const int threads = static_cast<int>(estimate.options.threads);
    const std::optional<TimeTerms> own = rates.of(instruction, type, threads, tokens);
    if (!own) return 0;
    TimeTerms seconds = *own;
    if (at_work.ranks > 1) {
      const auto all = rates.of(instruction, type, at_work.threads, tokens);
      for (const TimeTerm shared : {TimeTerm::kMid, TimeTerm::kFar}) {
        const auto i = static_cast<size_t>(shared);
        seconds[i] = std::max(seconds[i], at_work.ranks * (*all)[i]);
      }
    }
    return at_work.slowdown * seconds_of(units, seconds);
  }

  // Experts that tokens go to, each with its part of them, when they are spread evenly.
  [[nodiscard]] double experts_s(const Program& program, const Instruction& instruction,
                                 int64_t tokens, const Company& at_work) const {
    const ModelSpec& model = estimate.spec.model;
    const Buffer& weight = program.buffer(instruction.inputs.at(1));
    const auto held = static_cast<double>(weight.shape.at(0));
    const double choices = static_cast<double>(tokens * model.experts_per_token) * held /
                           static_cast<double>(model.experts);
    const double touched = std::min(held, choices);
    if (touched <= 0) return 0;
    const double rows = choices / touched;
    const auto out = static_cast<double>(weight.shape.at(1));
    const auto in = static_cast<double>(weight.shape.at(2));
    const double read = out * in * static_cast<double>(size_bytes(weight.dtype));
    TimeTerms units{};
    const auto set = [&](TimeTerm which, double value) {
      units[static_cast<size_t>(which)] = value;
    };
    set(TimeTerm::kCall, 1);
    set(TimeTerm::kLeft, rows * in);
    set(TimeTerm::kRight, out * in);
    set(TimeTerm::kOut, rows * out);
    set(TimeTerm::kMid, read * at_work.misses.mid);
    set(TimeTerm::kFar, read * at_work.misses.far);
    Instruction product = instruction;
    product.op = OpKind::kServeLinear;
    const auto whole_rows = std::max<int64_t>(1, static_cast<int64_t>(rows + 0.5));
    return touched * seconds_on(product, weight.dtype, whole_rows, units, at_work);
  }

  // A product of few tokens reads its weights: it is not slowed down by rows that fill no tile.
  [[nodiscard]] double kernel_by_constants(const Program& program,
                                           const Instruction& instruction) const {
    if (row_of(instruction.op).cost.product != Product::kRows) {
      return constants->kernel_s(program, instruction);
    }
    constexpr int64_t kWholeRows = 8;
    const Buffer& weight = program.buffer(instruction.inputs.at(1));
    const int64_t out = weight.shape.at(0), in = weight.shape.at(1);
    const int64_t rows = numel(program.buffer(instruction.inputs.at(0)).shape) / in;
    const MathType math = size_bytes(weight.dtype) == 2 ? MathType::kF16 : MathType::kF32;
    const InstructionCost cost = cost_of(program, instruction);
    return std::max(
        product_s(cluster.device, engine, math, round_up(rows, kWholeRows), out, in),
        memory_s(cluster.device, static_cast<double>(cost.bytes_read + cost.bytes_written)));
  }

  [[nodiscard]] double attention_by_constants(const Program& program,
                                              const Instruction& instruction,
                                              const FrameLoad& load) const {
    const KernelArgs& args = instruction.args;
    const DeviceSpec& device = cluster.device;
    const Buffer& cache = program.buffer(instruction.inputs.at(1));
    const double bytes = static_cast<double>(2 * args.kv_heads * args.head_dim *
                                             size_bytes(cache.dtype) * load.keys_read(args.window));
    const AttentionWork work = attention_work(args, load, 1);
    const double flops = 4 * work.scores * static_cast<double>(args.head_dim);
    const MathType math = size_bytes(cache.dtype) == 2 ? MathType::kF16 : MathType::kF32;
    const double rate = device.peak(math) * device.attention_efficiency.value;
    const double compute = rate > 0 ? flops / rate + device.launch_s.value : 0;
    return std::max(memory_s(device, bytes), compute);
  }

  double attention_s(const Program& program, const Instruction& instruction, const FrameLoad& load,
                     int64_t tokens, const Company& at_work) {
    const auto key = attention_key(instruction.args);
    const auto known = attention.find(key);
    if (known != attention.end()) return known->second;
    const double seconds =
        measured ? seconds_on(instruction, kernel_type(program, instruction), tokens,
                              attention_terms(program, instruction, load, at_work.misses), at_work)
                 : attention_by_constants(program, instruction, load);
    return attention[key] = seconds;
  }

  double kernel_s(const Program& program, const Instruction& instruction, int64_t tokens,
                  const Company& at_work) const {
    if (!measured) return kernel_by_constants(program, instruction);
    if (instruction.op == OpKind::kServeExpertLinear) {
      return experts_s(program, instruction, tokens, at_work);
    }
    return seconds_on(instruction, kernel_type(program, instruction), tokens,
                      frame_terms(program, instruction, at_work.misses), at_work);
  }

  // Whether collectives are in what was measured of frames of so many ranks.
  [[nodiscard]] bool talk_is_measured() const {
    return measured && rates
                           .of(host_work(estimate.options.tp, ranks_are), estimate.spec.train.dtype,
                               static_cast<int>(estimate.options.threads), 1)
                           .has_value();
  }

  [[nodiscard]] double transfer_s(const Program& program, const Instruction& instruction) const {
    const std::vector<int> ranks = program.mesh.peers(program.rank, instruction.group);
    const bool message = instruction.stream == StreamKind::kPipe;
    const std::vector<int> both = {ranks.front(), ranks.size() > 1 ? ranks[1] : ranks.front()};
    const Times* who = constants.get();
    if (measured) who = message ? &messages : &times;
    const TransferTime time = who->transfer(program, instruction, message ? both : ranks);
    return time.latency_s + time.wire_s;
  }

  RankSeconds rank_seconds(const Program& program, const FrameLoad& load, int64_t tokens,
                           const Company& at_work) {
    RankSeconds sum;
    attention.clear();
    for (const Instruction& instruction : program.instructions) {
      if (instruction.stream == StreamKind::kPipe) {
        if (instruction.op == OpKind::kSend) sum.message += transfer_s(program, instruction);
      } else if (instruction.stream != StreamKind::kCompute) {
        if (!talk_is_measured()) sum.collectives += transfer_s(program, instruction);
      } else if (instruction.op == OpKind::kPagedAttention) {
        sum.attention += attention_s(program, instruction, load, tokens, at_work);
      } else {
        const bool product = class_of(instruction.op) == OpClass::kProducts;
        (product ? sum.products : sum.others) += kernel_s(program, instruction, tokens, at_work);
      }
    }
    return sum;
  }

  // What the host does and, of several ranks, with what these tell each other.
  [[nodiscard]] std::optional<double> host_s(const Program& program, const FrameLoad& load,
                                             int64_t tokens, int64_t ranks, bool samples) const {
    const auto seconds = rates.of(host_work(ranks, ranks_are), estimate.spec.train.dtype,
                                  static_cast<int>(estimate.options.threads), tokens);
    if (!seconds) return std::nullopt;
    TimeTerms units = host_terms(tokens, std::ssize(program.instructions),
                                 samples ? load.rows * estimate.spec.model.vocab : 0);
    if (ranks > 1) add_talk_terms(program, units);
    return seconds_of(units, *seconds);
  }

  FramePrice price(const FrameLoad& load, int busy_stages) {
    const size_t bucket = bucket_of(load);
    const auto& stages = programs_of(bucket);
    const int64_t tokens = estimate.buckets[bucket].tokens;
    const Company at_work = company(stages, load, busy_stages);
    FramePrice frame;
    const Program* before = nullptr;
    RankSeconds rank;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (stages[s].get() != before) rank = rank_seconds(*stages[s], load, tokens, at_work);
      before = stages[s].get();
      add_stage(*stages[s], load, tokens, rank, s + 1 == stages.size(), frame);
    }
    return frame;
  }

  void add_stage(const Program& program, const FrameLoad& load, int64_t tokens,
                 const RankSeconds& rank, bool last, FramePrice& frame) const {
    double host = 0;
    if (measured) {
      const int64_t tp = estimate.options.tp;
      const std::optional<double> together = host_s(program, load, tokens, tp, last);
      host = together ? *together : host_s(program, load, tokens, 1, last).value_or(0);
    }
    frame.stage_s.push_back(rank.products + rank.attention + rank.others + rank.collectives + host);
    frame.message_s = std::max(frame.message_s, rank.message);
    frame.products_s += rank.products;
    frame.attention_s += rank.attention;
    frame.others_s += rank.others;
    frame.collectives_s += rank.collectives;
    frame.host_s += host;
  }

  const ServeEstimate& estimate;
  const Cluster& cluster;
  std::string ranks_are;
  ServeOutline outline;
  FrameRates rates;
  bool measured;
  MeasuredTimes times, messages;  // messages were measured between threads alone
  EngineNumbers engine;
  std::unique_ptr<ClusterTimes> constants;  // where nothing was measured
  std::map<size_t, std::vector<std::shared_ptr<const Program>>> programs;  // by bucket, by stage
  std::map<decltype(attention_key(KernelArgs())), double> attention;       // of one stage
};

FramePricer::FramePricer(const ServeEstimate& estimate, const Cluster& cluster,
                         std::string ranks_are)
    : state_(std::make_unique<State>(estimate, cluster, std::move(ranks_are))) {}
FramePricer::~FramePricer() = default;

bool FramePricer::measured() const { return state_->measured; }

FramePrice FramePricer::price(const FrameLoad& load, int busy_stages) {
  return state_->price(load, busy_stages);
}

}  // namespace tessera::serve
