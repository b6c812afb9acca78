// What an entry measured: the time of a step, from whatever it is given as, and memory.
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "published/entry_parts.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;

double tokens_of(const Workload& w) {
  return static_cast<double>(w.global_batch) * static_cast<double>(w.seq_len);
}

// As it stands.
std::optional<double> given_time(const EntryReading& r) {
  if (!r.batch_said.known()) return std::nullopt;
  for (const EntryFields* fields : {&r.results, &r.derived}) {
    for (const char* key :
         {"iter_time_s", "published_iter_time_s", "iter_time_s_if_fullattn_6ND"}) {
      if (const std::optional<double> seconds = fields->real(key)) return *seconds * r.batch_scale;
    }
  }
  return std::nullopt;
}

std::optional<double> time_from_tokens(const EntryReading& r, double devices) {
  const double tokens = tokens_of(r.run.workload);
  for (const EntryFields* fields : {&r.results, &r.derived}) {
    if (const auto rate = fields->real("tokens_per_s_per_gpu")) return tokens / (*rate * devices);
    if (const auto rate = fields->real("tokens_per_s_total")) return tokens / *rate;
  }
  const std::optional<double> hours = r.results.real("gpu_hours"), all = r.results.real("tokens");
  if (hours && all) return tokens * *hours * 3600 / (*all * devices);
  return std::nullopt;
}

// By the formula of Narayanan et al. 2021, which counts what is computed again, or from MFU of
// the model's own arithmetic with whole attention, which PaLM and most others mean by it.
std::optional<double> time_from_rate(const EntryReading& r, double devices) {
  const Workload& w = r.run.workload;
  const double tokens = tokens_of(w);
  const double attention = 6 * tokens * static_cast<double>(w.model.layers) *
                           static_cast<double>(w.model.query_width() + w.model.value_width()) *
                           static_cast<double>(w.seq_len);
  const double products = 6 * tokens * static_cast<double>(w.model.product_weights());
  const double model = products + attention;
  if (const std::optional<double> mfu = r.results.real("mfu")) {
    const double share = *mfu > 1 ? *mfu / 100 : *mfu;  // 41 is a percentage
    return model / (share * devices * w.cluster.device.peak(MathType::kF16));
  }
  const std::optional<double> rate = r.results.real("tflops_per_gpu");
  if (!rate) return std::nullopt;
  double flops = model;
  if (r.run.strategy.recompute == Recompute::kFull) {
    flops += (model - 6 * tokens * static_cast<double>(w.model.table_parameters())) / 3;
  }
  return flops / (*rate * 1e12 * devices);
}

}  // namespace

void read_time(EntryReading& r) {
  const auto devices = static_cast<double>(r.run.workload.cluster.devices);
  r.run.step_s = given_time(r);
  if (!r.run.step_s) r.run.step_s = time_from_tokens(r, devices);
  if (!r.run.step_s) r.run.step_s = time_from_rate(r, devices);
}

void read_memory(EntryReading& r) {
  PublishedRun& run = r.run;
  if (const json* by_rank = r.results.find("max_allocated_mib_by_rank");
      by_rank != nullptr && by_rank->is_object()) {
    run.rank_bytes.resize(by_rank->size());
    for (const auto& [rank, mib] : by_rank->items()) {
      size_t index = 0;
      std::from_chars(rank.data(), rank.data() + rank.size(), index);
      require_config(index < run.rank_bytes.size() && mib.is_number(),
                     "max_allocated_mib_by_rank must have a number for every rank from 0");
      run.rank_bytes[index] = mib.get<double>() * kMiB;
    }
  }
  run.last_rank_bytes = r.results.real("max_allocated_bytes");
  if (const std::optional<double> gib = r.results.real("peak_mem_gib")) {
    run.peak_bytes = *gib * kGiB;
  } else if (const std::optional<double> gb = r.results.real("peak_mem_gb")) {
    run.peak_bytes = *gb * kGiB;  // tools print GiB and say GB
  }
}

}  // namespace tessera
