#include "bench/bench_decode_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "compile/model/model_flops.h"
#include "train/machine/probe_programs.h"

namespace tessera {
namespace {

int64_t total_threads(const serve::ServePlan& plan) {
  return plan.options.threads * static_cast<int64_t>(plan.world());
}

std::string tenth(double value) { return fmt::format("{:.1f}", value); }
std::string hundredth(double value) { return fmt::format("{:.2f}", value); }

double prompt_tokens_per_s(const DecodeReport& report) {
  return static_cast<double>(report.prompt) / report.prefill.median_s();
}

std::string decode_table(const DecodeReport& report) {
  TextTable table({{"batch", Align::kRight},
                   {"step ms", Align::kRight},
                   {"(fastest, slowest)", Align::kRight},
                   {"tokens/s", Align::kRight},
                   {"of the first", Align::kRight},
                   {"MB to read", Align::kRight},
                   {"GB/s", Align::kRight},
                   {"probe GB/s", Align::kRight},
                   {"share", Align::kRight}});
  for (const DecodeCase& one : report.decode) {
    const auto [fastest, slowest] =
        std::minmax_element(one.rounds.seconds.begin(), one.rounds.seconds.end());
    const auto bytes = static_cast<double>(one.bytes.total());
    table.add_row({std::to_string(one.batch), hundredth(one.rounds.median_s() * 1e3),
                   fmt::format("({:.2f}, {:.2f})", *fastest * 1e3, *slowest * 1e3),
                   tenth(one.tokens_per_s()),
                   fmt::format("{:.2f}x", one.tokens_per_s() / report.decode[0].tokens_per_s()),
                   tenth(bytes / 1e6), tenth(bytes / one.rounds.median_s() / 1e9),
                   tenth(median_of(one.rounds.limit) / 1e9), hundredth(one.rounds.share(bytes))});
  }
  return table.str();
}

}  // namespace

StepBytes step_bytes(const serve::ServePlan& plan, int64_t batch, int64_t context) {
  const ModelSpec& model = plan.spec.model;
  const int64_t element = size_bytes(plan.spec.train.dtype);
  double elements = 0;
  for (const Bucket& bucket : plan.buckets.front().step.layout.buckets) {
    if (bucket.unit == 0 || bucket.copy_of >= 0) continue;
    double share = 1;
    if (bucket.experts) {
      share = std::min(1.0, static_cast<double>(batch * model.experts_per_token) /
                                static_cast<double>(model.experts));
    }
    for (const Weight& weight : bucket.weights) {
      for (const LogicalTensor& part : weight.parts) {
        elements += share * static_cast<double>(numel(part.shape));
      }
    }
  }
  // As the head, or the rows of the tokens.
  elements += static_cast<double>(model.hidden * (model.tied ? model.vocab : batch));
  const int64_t seen = model.sliding_window > 0 ? std::min(model.sliding_window, context) : context;
  return {static_cast<int64_t>(elements) * element,
          batch * seen * (plan.page_bytes / plan.shape.page_size)};
}

double prompt_flops(const ModelSpec& model, int64_t length) {
  const auto head = static_cast<double>(model.vocab * model.hidden);
  const double products = static_cast<double>(product_weights(model)) - head;
  double keys = 0;  // that all tokens see together
  for (int64_t t = 1; t <= length; ++t) {
    keys += static_cast<double>(model.sliding_window > 0 ? std::min(model.sliding_window, t) : t);
  }
  const auto columns = static_cast<double>(model.layers * model.heads * model.head_dim);
  return 2 * products * static_cast<double>(length) + 2 * head + 4 * columns * keys;
}

double TimedRounds::median_s() const { return median_of(seconds); }

double TimedRounds::share(double work) const {
  std::vector<double> shares;
  for (size_t i = 0; i < seconds.size(); ++i) shares.push_back(work / seconds[i] / limit[i]);
  return median_of(std::move(shares));
}

double DecodeCase::tokens_per_s() const { return static_cast<double>(batch) / rounds.median_s(); }

std::string decode_text(const DecodeReport& report) {
  const serve::ServePlan& plan = report.plan;
  std::string text =
      fmt::format("{}, {}, tp={} pp={}{}, {}\nevery sequence has {} tokens; medians of {}\n\n",
                  report.model, name_of(plan.spec.train.dtype), plan.options.tp, plan.options.pp,
                  report.processes ? " as processes" : "", count_of(total_threads(plan), "thread"),
                  with_thousands(report.context),
                  count_of(std::ssize(report.decode.front().rounds.seconds), "round"));
  text += decode_table(report);
  text +=
      "a step must read every weight once and all keys and values; the probe reads as many threads'"
      " memory, in the same round\n";
  if (report.prompt == 0) return text;
  const double flops = prompt_flops(plan.spec.model, report.prompt);
  text += fmt::format(
      "\nprompt    {} tokens in {:.1f} ms, {:.1f} tokens/s\n          {:.1f} GFLOP/s, {:.2f} of a "
      "large product ({:.1f} GFLOP/s)\n",
      with_thousands(report.prompt), report.prefill.median_s() * 1e3, prompt_tokens_per_s(report),
      flops / report.prefill.median_s() / 1e9, report.prefill.share(flops),
      median_of(report.prefill.limit) / 1e9);
  return text;
}

nlohmann::ordered_json decode_json(const DecodeReport& report) {
  const serve::ServePlan& plan = report.plan;
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "bench_decode"},
                                 {"model", report.model},
                                 {"dtype", name_of(plan.spec.train.dtype)},
                                 {"tp", plan.options.tp},
                                 {"pp", plan.options.pp},
                                 {"processes", report.processes},
                                 {"threads", total_threads(plan)},
                                 {"context", report.context}};
  json["decode"] = nlohmann::ordered_json::array();
  for (const DecodeCase& one : report.decode) {
    const auto bytes = static_cast<double>(one.bytes.total());
    json["decode"].push_back({{"batch", one.batch},
                              {"step_ms", one.rounds.median_s() * 1e3},
                              {"tokens_per_s", one.tokens_per_s()},
                              {"weight_bytes", one.bytes.weights},
                              {"cache_bytes", one.bytes.cache},
                              {"bytes_per_s", bytes / one.rounds.median_s()},
                              {"share_of_probe", one.rounds.share(bytes)},
                              {"step_s", one.rounds.seconds},
                              {"probe_bytes_per_s", one.rounds.limit}});
  }
  if (report.prompt == 0) return json;
  const double flops = prompt_flops(plan.spec.model, report.prompt);
  json["prefill"] = {{"tokens", report.prompt},
                     {"ms", report.prefill.median_s() * 1e3},
                     {"tokens_per_s", prompt_tokens_per_s(report)},
                     {"flops", flops},
                     {"flops_per_s", flops / report.prefill.median_s()},
                     {"share_of_product", report.prefill.share(flops)},
                     {"seconds", report.prefill.seconds},
                     {"product_flops_per_s", report.prefill.limit}};
  return json;
}

}  // namespace tessera
