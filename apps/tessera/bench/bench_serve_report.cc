#include "bench/bench_serve_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// What is counted and timed of all answers that came whole.
struct Totals {
  int64_t completed = 0, good = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
  double latest_start_s = 0;  // behind its time
  Spread ttft, tpot, itl, whole;
};

Totals totals_of(const ServeReport& report) {
  Totals totals;
  std::vector<double> ttft, tpot, itl, whole;
  for (const AnswerSample& sample : report.samples) {
    totals.latest_start_s = std::max(totals.latest_start_s, sample.sent_s - sample.asked_s);
    if (!sample.ok()) continue;
    ++totals.completed;
    totals.good += report.level.met_by(sample) ? 1 : 0;
    totals.prompt_tokens += sample.prompt_tokens;
    totals.cached_tokens += sample.cached_tokens;
    totals.answer_tokens += sample.answer_tokens;
    ttft.push_back(sample.ttft_s() * 1e3);
    whole.push_back(sample.whole_s() * 1e3);
    if (sample.tpot_s() > 0) tpot.push_back(sample.tpot_s() * 1e3);
    for (const float gap : sample.gaps_s) itl.push_back(double{gap} * 1e3);
  }
  totals.ttft = spread_of(std::move(ttft));
  totals.tpot = spread_of(std::move(tpot));
  totals.itl = spread_of(std::move(itl));
  totals.whole = spread_of(std::move(whole));
  return totals;
}

double per_second(int64_t count, const ServeReport& report) {
  return report.seconds > 0 ? static_cast<double>(count) / report.seconds : 0;
}

std::string ms_text(double ms) { return fmt::format("{:.2f}", ms); }

void add_spread(TextTable& table, const std::string& name, const Spread& spread) {
  table.add_row({name, with_thousands(spread.count), ms_text(spread.mean), ms_text(spread.p50),
                 ms_text(spread.p90), ms_text(spread.p95), ms_text(spread.p99)});
}

nlohmann::ordered_json spread_json(const Spread& spread) {
  return {{"count", spread.count}, {"mean", spread.mean}, {"p50", spread.p50},
          {"p90", spread.p90},     {"p95", spread.p95},   {"p99", spread.p99}};
}

std::string loop_text(const ServeReport& report) {
  if (report.load.rate > 0) {
    return fmt::format("open loop, {:g} requests/s (Poisson)", report.load.rate);
  }
  return fmt::format("closed loop, {} at a time", report.concurrency);
}

// One sentence of what was said for each kind of failure.
std::map<std::string, std::string> examples_of(const std::vector<AnswerSample>& samples) {
  std::map<std::string, std::string> examples;
  for (const AnswerSample& sample : samples) {
    if (!sample.ok() && !sample.detail.empty()) examples.emplace(sample.failure, sample.detail);
  }
  return examples;
}

}  // namespace

bool ServiceLevel::met_by(const AnswerSample& sample) const {
  const auto within = [](double seconds, double limit_ms) {
    return limit_ms <= 0 || seconds * 1e3 <= limit_ms;
  };
  return sample.ok() && within(sample.ttft_s(), ttft_ms) && within(sample.tpot_s(), tpot_ms) &&
         within(sample.whole_s(), whole_ms);
}

ServiceLevel parse_service_level(std::string_view text) {
  ServiceLevel level;
  if (text.empty()) return level;
  for (const std::string_view word : split(text, ',')) {
    const size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    double* const to = key == "ttft"   ? &level.ttft_ms
                       : key == "tpot" ? &level.tpot_ms
                       : key == "e2e"  ? &level.whole_ms
                                       : nullptr;
    const auto value =
        equals == std::string_view::npos ? std::nullopt : whole_real(word.substr(equals + 1));
    require_config(to != nullptr && value.has_value() && *value > 0 && std::isfinite(*value),
                   "--slo has {}: expected milliseconds, such as ttft=200,tpot=20,e2e=5000",
                   in_quotes(word));
    *to = *value;
  }
  return level;
}

double percentile(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  spread.count = std::ssize(values);
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  spread.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  spread.p50 = percentile(values, 50);
  spread.p90 = percentile(values, 90);
  spread.p95 = percentile(values, 95);
  spread.p99 = percentile(values, 99);
  return spread;
}

std::map<std::string, int64_t> failures_of(const std::vector<AnswerSample>& samples) {
  std::map<std::string, int64_t> failures;
  for (const AnswerSample& sample : samples) {
    if (!sample.ok()) ++failures[sample.failure];
  }
  return failures;
}

std::string serve_text(const ServeReport& report) {
  const Totals totals = totals_of(report);
  std::string text = fmt::format("{}, {}\n", report.target, loop_text(report));
  text += fmt::format("requests  {} of {} in {:.2f} s, {:.2f} requests/s{}\n",
                      with_thousands(totals.completed), with_thousands(std::ssize(report.samples)),
                      report.seconds, per_second(totals.completed, report),
                      report.interrupted ? "; interrupted" : "");
  text +=
      fmt::format("tokens    {} of prompts ({} cached), {} of answers, {:.1f} tokens/s\n",
                  with_thousands(totals.prompt_tokens), with_thousands(totals.cached_tokens),
                  with_thousands(totals.answer_tokens), per_second(totals.answer_tokens, report));
  if (report.level.is_asked_for()) {
    text += fmt::format("goodput   {:.2f} requests/s, {} of {} within the limits\n",
                        per_second(totals.good, report), with_thousands(totals.good),
                        with_thousands(std::ssize(report.samples)));
  }
  const auto examples = examples_of(report.samples);
  for (const auto& [kind, count] : failures_of(report.samples)) {
    const auto example = examples.find(kind);
    text += fmt::format("failed    {} x {}{}\n", with_thousands(count), kind,
                        example == examples.end() ? "" : ": " + in_quotes(example->second, 120));
  }
  TextTable table({{"ms"},
                   {"count", Align::kRight},
                   {"mean", Align::kRight},
                   {"p50", Align::kRight},
                   {"p90", Align::kRight},
                   {"p95", Align::kRight},
                   {"p99", Align::kRight}});
  add_spread(table, "to the first token", totals.ttft);
  add_spread(table, "per token after it", totals.tpot);
  add_spread(table, "between texts", totals.itl);
  add_spread(table, "whole answer", totals.whole);
  text += "\n" + table.str();
  // What is late by the client's own fault says nothing of the server.
  if (report.load.rate > 0) {
    text += fmt::format("requests were sent at most {:.2f} ms after they were due\n",
                        totals.latest_start_s * 1e3);
  }
  return text;
}

nlohmann::ordered_json serve_json(const ServeReport& report) {
  const Totals totals = totals_of(report);
  const LoadShape& load = report.load;
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "bench_serve"},
                                 {"target", report.target},
                                 {"loop", load.rate > 0 ? "open" : "closed"},
                                 {"rate", load.rate},
                                 {"concurrency", report.concurrency},
                                 {"seed", load.seed},
                                 {"prompt_tokens_mean", load.prompt_tokens},
                                 {"answer_tokens_mean", load.answer_tokens},
                                 {"spread", load.spread},
                                 {"shared_prefix", load.shared_prefix},
                                 {"seconds", report.seconds},
                                 {"interrupted", report.interrupted},
                                 {"requests", report.samples.size()},
                                 {"completed", totals.completed},
                                 {"failures", failures_of(report.samples)},
                                 {"requests_per_s", per_second(totals.completed, report)},
                                 {"prompt_tokens", totals.prompt_tokens},
                                 {"cached_tokens", totals.cached_tokens},
                                 {"answer_tokens", totals.answer_tokens},
                                 {"answer_tokens_per_s", per_second(totals.answer_tokens, report)},
                                 {"ttft_ms", spread_json(totals.ttft)},
                                 {"tpot_ms", spread_json(totals.tpot)},
                                 {"itl_ms", spread_json(totals.itl)},
                                 {"e2e_ms", spread_json(totals.whole)},
                                 {"latest_start_ms", totals.latest_start_s * 1e3}};
  if (report.level.is_asked_for()) {
    json["goodput"] = {{"ttft_ms", report.level.ttft_ms},
                       {"tpot_ms", report.level.tpot_ms},
                       {"e2e_ms", report.level.whole_ms},
                       {"requests", totals.good},
                       {"requests_per_s", per_second(totals.good, report)}};
  }
  return json;
}

}  // namespace tessera
