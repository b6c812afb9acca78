#include "simulate/simulate_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "draw/pass_color.h"
#include "draw/time_bars.h"
#include "plan/report/misfit_text.h"
#include "plan/serve_plan.h"
#include "serve/plan/serve_report.h"

namespace tessera {
namespace {

using serve::Percentiles;
using serve::PlayedFrame;
using serve::PlayedPart;
using serve::SimulatedServing;

constexpr std::pair<const char*, Percentiles SimulatedServing::*> kWaits[] = {
    {"ttft", &SimulatedServing::ttft},
    {"tpot", &SimulatedServing::tpot},
    {"itl", &SimulatedServing::itl},
    {"end_to_end", &SimulatedServing::whole}};

struct Answer {
  serve::ServeReport report;
  SimulatedServing simulated;
  bool measured = false;
};

Answer simulate(const SimulateServeFlags& flags) {
  const serve::ServeTraffic& traffic = flags.traffic;
  require_config(
      !flags.plan.cluster.empty(),
      "simulate --serve needs the times of a machine: give --cluster, such as h100-8, or "
      "what tessera calibrate wrote");
  require_config(traffic.rate > 0 || traffic.concurrency > 0,
                 "give --rate, requests per second, or --concurrency, requests at a time");
  ServePlanQuery query = flags.plan;
  if (query.max_context == 0) {
    const double longest =
        (1 + traffic.spread) * static_cast<double>(traffic.prompt + traffic.answer);
    query.max_context = static_cast<int64_t>(longest) + 2;
  }
  query.advice = true;
  Answer answer;
  answer.report = plan_to_serve(query, console_surroundings());
  const serve::ServeEstimate& estimate = answer.report.estimate;
  if (!estimate.fits) {
    throw Error(serve::serve_misfit_text(answer.report), ExitCode::kDoesNotFit);
  }
  serve::BatchOptions options;
  options.token_budget = estimate.shape.max_tokens;
  options.expected_answer = traffic.answer;
  options.prefix_cache = false;  // no prompt begins as another does
  serve::FramePricer pricer(estimate, *answer.report.cluster, "processes");
  answer.measured = pricer.measured();
  answer.simulated = serve::simulate_serving(pricer, estimate, options, traffic);
  return answer;
}

std::string waits_table(const SimulatedServing& simulated) {
  TextTable table({{"", Align::kLeft},
                   {"mean", Align::kRight},
                   {"p50", Align::kRight},
                   {"p95", Align::kRight},
                   {"p99", Align::kRight}});
  constexpr const char* kNames[] = {"first token (TTFT)", "each next one (TPOT)",
                                    "between two (ITL)", "whole answer"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const Percentiles& p = simulated.*kWaits[i].second;
    table.add_row({kNames[i], short_seconds(p.mean), short_seconds(p.p50), short_seconds(p.p95),
                   short_seconds(p.p99)});
  }
  return table.str();
}

std::string text_of(const SimulateServeFlags& flags, const Answer& answer) {
  const SimulatedServing& s = answer.simulated;
  const serve::ServeEstimate& e = answer.report.estimate;
  const serve::ServeTraffic& traffic = flags.traffic;
  std::string text = fmt::format(
      "{} on {}: tp={} pp={}, {}\n", flags.plan.model, answer.report.cluster->name, e.options.tp,
      e.options.pp,
      answer.measured ? "frames as they were measured there"
                      : fmt::format("frames by constants of {}: a guess until they are measured",
                                    answer.report.cluster->device.name));
  text += fmt::format(
      "{} of about {} and {} more, {}\n\n", count_of(traffic.requests, "request"),
      count_of(traffic.prompt, "token"), with_thousands(traffic.answer),
      traffic.rate > 0
          ? fmt::format(
                "{:g} per second{}", traffic.rate,
                traffic.concurrency > 0 ? fmt::format(", {} at a time", traffic.concurrency) : "")
          : fmt::format("{} at a time", traffic.concurrency));
  text += waits_table(s);
  text += fmt::format(
      "\n{} in {}: {:.1f} tokens/s written, {:.1f} read, {:.3g} requests/s\n"
      "pages: {} of {} at most, {:.1f} in the mean\n",
      count_of(std::ssize(s.played.frames), "frame"), short_seconds(s.seconds),
      s.answer_tokens_per_s, s.prompt_tokens_per_s, s.requests_per_s, with_thousands(s.most_pages),
      with_thousands(e.shape.num_pages), s.mean_pages);
  for (size_t stage = 0; stage < s.busy.size(); ++stage) {
    text += fmt::format("stage {} computes {:.1f} % of the time\n", stage, 100 * s.busy[stage]);
  }
  if (s.played.preemptions > 0) {
    text += fmt::format("preempted {} times, {} tokens computed again\n", s.played.preemptions,
                        s.played.recomputed_tokens);
  }
  return text + "of the engine alone; no HTTP\n";
}

nlohmann::ordered_json json_of(const SimulateServeFlags& flags, const Answer& answer) {
  const SimulatedServing& s = answer.simulated;
  const serve::ServeEstimate& e = answer.report.estimate;
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "serve_simulation"},
                                 {"model", flags.plan.model},
                                 {"cluster", answer.report.cluster->name},
                                 {"by", answer.measured ? "measured" : "constants"},
                                 {"mesh", {{"tp", e.options.tp}, {"pp", e.options.pp}}},
                                 {"requests", std::ssize(s.requests)},
                                 {"frames", std::ssize(s.played.frames)},
                                 {"seconds", s.seconds}};
  for (const auto& [name, field] : kWaits) {
    const Percentiles& p = s.*field;
    json[name] = {{"mean_s", p.mean}, {"p50_s", p.p50}, {"p95_s", p.p95}, {"p99_s", p.p99}};
  }
  json["answer_tokens_per_s"] = s.answer_tokens_per_s;
  json["prompt_tokens_per_s"] = s.prompt_tokens_per_s;
  json["requests_per_s"] = s.requests_per_s;
  json["pages"] = {{"of", e.shape.num_pages}, {"most", s.most_pages}, {"mean", s.mean_pages}};
  json["busy"] = s.busy;
  json["preemptions"] = s.played.preemptions;
  json["recomputed_tokens"] = s.played.recomputed_tokens;
  return json;
}

int64_t prompt_tokens(const PlayedFrame& frame) {
  int64_t sum = 0;
  for (const PlayedPart& part : frame.parts) sum += part.is_answer ? 0 : part.count;
  return sum;
}

// A row for each stage, and below them the pages in use.
std::string svg_of(const SimulateServeFlags& flags, const Answer& answer) {
  constexpr double kMargin = 16, kLabel = 70, kTop = 40, kRow = 28, kWidth = 1180, kPages = 80;
  const SimulatedServing& s = answer.simulated;
  const double span = s.played.makespan;
  const double unit = span > 0 ? kWidth / span : 0;
  const auto stages = static_cast<double>(s.busy.size());
  const std::string prompt_fill = hex(kForwardColor), answer_fill = hex(kBackwardColor);
  SvgPage page;
  const std::string title = fmt::format("{} on {}: TTFT {} and TPOT {} at p50", flags.plan.model,
                                        answer.report.cluster->name, short_seconds(s.ttft.p50),
                                        short_seconds(s.tpot.p50));
  page.text(kMargin, 25, 15, kTitleInk, Anchor::kStart, title);
  std::vector<double> widths;
  for (const PlayedFrame& frame : s.played.frames) {
    for (const auto& [begin, end] : frame.stages) widths.push_back((end - begin) * unit);
  }
  for (size_t stage = 0; stage < s.busy.size(); ++stage) {
    const double top = kTop + kRow * static_cast<double>(stage);
    page.text(kMargin, top + 18, 12, kInk, Anchor::kStart, fmt::format("stage {}", stage));
    page.box(kMargin + kLabel, top, kWidth, kRow - 2, kIdle);
    std::vector<TimeBar> bars;
    for (const PlayedFrame& frame : s.played.frames) {
      const auto& [begin, end] = frame.stages[stage];
      bars.push_back({kMargin + kLabel + begin * unit, (end - begin) * unit,
                      prompt_tokens(frame) > 0 ? prompt_fill : answer_fill,
                      std::to_string(frame.tokens)});
    }
    if (are_too_narrow(widths)) {
      draw_shares(page, bars, {prompt_fill, answer_fill},
                  {kMargin + kLabel, top + 1, kWidth, kRow - 4}, slice_for(widths));
    } else {
      draw_bars(page, bars, top + 1, kRow - 4);
      draw_labels(page, bars, top + 1, kRow - 4);
    }
  }
  const double floor = kTop + kRow * stages + 24 + kPages;
  std::vector<SvgPoint> used;
  const auto all = static_cast<double>(answer.report.estimate.shape.num_pages);
  for (const PlayedFrame& frame : s.played.frames) {
    used.push_back({kMargin + kLabel + frame.planned * unit,
                    floor - kPages * static_cast<double>(frame.pages_used) / all});
  }
  page.text(kMargin, floor - kPages / 2, 12, kInk, Anchor::kStart, "pages");
  page.frame(kMargin + kLabel, floor - kPages, kWidth, kPages, kFaintInk);
  page.curve(used, kInk);
  for (const double at : round_ticks(span)) {
    page.text(kMargin + kLabel + at * unit, floor + 17, 11, kFaintInk,
              at == 0 ? Anchor::kStart : Anchor::kMiddle, tick_text(at, span));
  }
  page.area(kMargin, floor + 30, 12, 12, prompt_fill);
  page.text(kMargin + 18, floor + 40, 12, kInk, Anchor::kStart, "frames with prompts");
  page.area(kMargin + 170, floor + 30, 12, 12, answer_fill);
  page.text(kMargin + 188, floor + 40, 12, kInk, Anchor::kStart,
            "frames of answers alone; their number of tokens");
  return page.str(kWidth + 2 * kMargin + kLabel, floor + 56, title,
                  "which frame every stage computes when, and the pages of the cache in use");
}

std::string trace_of(const SimulatedServing& simulated) {
  std::vector<std::string> lines;
  const auto add = [&](const nlohmann::ordered_json& event) { lines.push_back(event.dump()); };
  for (size_t stage = 0; stage < simulated.busy.size(); ++stage) {
    add({{"name", "process_name"},
         {"ph", "M"},
         {"pid", stage},
         {"args", {{"name", fmt::format("stage {}", stage)}}}});
  }
  for (size_t f = 0; f < simulated.played.frames.size(); ++f) {
    const PlayedFrame& frame = simulated.played.frames[f];
    const int64_t prompts = prompt_tokens(frame);
    for (size_t stage = 0; stage < frame.stages.size(); ++stage) {
      const auto& [begin, end] = frame.stages[stage];
      add({{"name", fmt::format("frame {}: {}", f, count_of(frame.tokens, "token"))},
           {"cat", prompts > 0 ? "prompt" : "answer"},
           {"ph", "X"},
           {"pid", stage},
           {"tid", 1},
           {"ts", begin * 1e6},
           {"dur", (end - begin) * 1e6},
           {"args", {{"prompt_tokens", prompts}, {"pages", frame.pages_used}}}});
    }
  }
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(lines, ",\n"));
}

}  // namespace

void add_simulate_serve(CLI::App& app, SimulateServeFlags& flags) {
  add_serve_plan(app, flags.plan);
  serve::ServeTraffic& traffic = flags.traffic;
  add_real(app, "--rate", traffic.rate, 0, "with --serve: requests per second, at random times");
  add_whole(app, "--concurrency", traffic.concurrency, 1,
            "with --serve: requests at a time; who has an answer asks again");
  add_length(app, "--prompt", traffic.prompt, "with --serve: tokens of a prompt (default 512)");
  add_length(app, "--answer", traffic.answer, "with --serve: tokens of an answer (default 128)");
  add_real(app, "--spread", traffic.spread, 0,
           "with --serve: lengths within so much of their mean, 0 to 1 (default 0)");
  add_whole(app, "--requests", traffic.requests, 1, "with --serve: how many (default 200)");
}

void refuse_simulate_serve(const SimulateServeFlags& flags) {
  refuse_serve_flags(flags.plan);
  const serve::ServeTraffic untouched;
  const serve::ServeTraffic& given = flags.traffic;
  const bool same = given.rate == untouched.rate && given.concurrency == untouched.concurrency &&
                    given.prompt == untouched.prompt && given.answer == untouched.answer &&
                    given.spread == untouched.spread && given.requests == untouched.requests;
  require_config(
      same,
      "--rate, --concurrency, --prompt, --answer, --spread and --requests are of a model "
      "that is served: add --serve MODEL, or leave them out");
}

int run_simulate_serve(const SimulateServeFlags& flags, const SimulateServeOutput& output,
                       Console& console) {
  const serve::ServeTraffic& traffic = flags.traffic;
  require_config(traffic.spread <= 1, "--spread is {:g}: use 0 to 1", traffic.spread);
  constexpr int64_t kMostRequests = 100'000;
  require_config(traffic.requests <= kMostRequests, "--requests is {}: use 1 to {}",
                 traffic.requests, kMostRequests);
  const Answer answer = simulate(flags);
  console.out << (output.json ? json_of(flags, answer).dump(2) + '\n'
                              : fitted(console, text_of(flags, answer)));
  if (!output.svg.empty()) write_file(output.svg, svg_of(flags, answer), console);
  if (!output.trace.empty()) write_file(output.trace, trace_of(answer.simulated), console);
  return 0;
}

}  // namespace tessera
