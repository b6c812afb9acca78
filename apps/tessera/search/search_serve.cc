#include "search/search_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/surroundings.h"
#include "cost/hardware/catalogue.h"
#include "plan/report/misfit_text.h"
#include "plan/serve_plan.h"
#include "serve/predict/serve_prediction.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// One mesh: what it reaches, or why it does not.
struct ServedMesh {
  int64_t tp = 1, pp = 1, ep = 1, replicas = 1;
  std::string why_not = {};
  int64_t sequences = 0, token_budget = 0;  // settings: --max-sequences, --token-budget
  double ttft_s = 0, tpot_s = 0;
  double tokens_per_s = 0;  // written by all replicas, prompts being read as well
  bool measured = false;

  [[nodiscard]] std::string mesh() const {
    return fmt::format("dp={},tp={},pp={}{}", replicas, tp, pp,
                       ep > 1 ? fmt::format(",ep={}", ep) : "");
  }
};

// The most texts whose next tokens come in time; nothing: not even one's do.
std::optional<std::pair<int64_t, double>> most_sequences(serve::FramePricer& pricer,
                                                         const serve::ServeEstimate& estimate,
                                                         int64_t context, double target_s) {
  const int64_t most = std::min(estimate.most_sequences(context), estimate.shape.max_sequences);
  std::vector<int64_t> counts = {most};
  for (auto b = estimate.buckets.rbegin(); b != estimate.buckets.rend(); ++b) {
    if (b->tokens < most) counts.push_back(b->tokens);
  }
  for (const int64_t count : counts) {
    if (count < 1) continue;
    const double step = serve::decode_step_s(pricer, estimate, count, context);
    if (target_s == 0 || step <= target_s) return std::pair(count, step);
  }
  return std::nullopt;
}

// The largest frame in which texts get their next tokens in time beside a chunk of a prompt.
int64_t token_budget(serve::FramePricer& pricer, const serve::ServeEstimate& estimate,
                     const SearchServeFlags& flags, int64_t sequences, double target_s) {
  if (target_s == 0) return estimate.shape.max_tokens;
  const int64_t stages = estimate.shape.stages;
  const int64_t group = std::max<int64_t>(1, sequences / stages);
  int64_t best = group;
  for (const serve::FrameBucket& bucket : estimate.buckets) {
    if (bucket.tokens <= group) continue;
    const int64_t texts = std::min(group, bucket.sequences - 1);
    serve::FrameLoad load = serve::decode_load(texts, flags.prompt + flags.answer);
    load.sequences.push_back({flags.prompt / 2, bucket.tokens - texts});
    const serve::FramePrice price = pricer.price(load, static_cast<int>(stages));
    const double step = std::max(price.total_s(), static_cast<double>(stages) * price.slowest_s());
    if (step > target_s) break;
    best = bucket.tokens;
  }
  return best;
}

void judge(const SearchServeFlags& flags, const Surroundings& around, ServedMesh& candidate) {
  ServePlanQuery query = flags.plan;
  query.tp = std::to_string(candidate.tp);
  query.pp = std::to_string(candidate.pp);
  query.ep = std::to_string(candidate.ep);
  query.advice = false;
  if (query.max_context == 0) query.max_context = flags.prompt + flags.answer;
  const serve::ServeReport report = plan_to_serve(query, around);
  const serve::ServeEstimate& estimate = report.estimate;
  if (!estimate.fits) {
    candidate.why_not = serve::serve_misfit_sentence(report);
    return;
  }
  serve::FramePricer pricer(estimate, *report.cluster, "processes");
  candidate.measured = pricer.measured();
  const int64_t context = flags.prompt + flags.answer;
  candidate.ttft_s = serve::first_token_s(pricer, estimate, flags.prompt,
                                          serve::usual_chunk(estimate, flags.prompt));
  if (flags.ttft_ms > 0 && candidate.ttft_s > flags.ttft_ms / 1e3) {
    candidate.why_not = fmt::format("first token after {}", short_seconds(candidate.ttft_s));
    return;
  }
  const double target_s = flags.tpot_ms / 1e3;
  const auto most = most_sequences(pricer, estimate, context, target_s);
  if (!most) {
    candidate.why_not =
        fmt::format("one text's next token takes {}",
                    short_seconds(serve::decode_step_s(pricer, estimate, 1, context)));
    return;
  }
  std::tie(candidate.sequences, candidate.tpot_s) = *most;
  candidate.token_budget = token_budget(pricer, estimate, flags, candidate.sequences, target_s);
  // A prompt takes the slowest stage's part of it, and each of its tokens a part of a step.
  double prompt_s = 0;
  for (const serve::FrameLoad& load :
       serve::prompt_loads(flags.prompt, serve::usual_chunk(estimate, flags.prompt))) {
    prompt_s += pricer.price(load, estimate.shape.stages).slowest_s();
  }
  const auto answer = static_cast<double>(flags.answer);
  const double request_s =
      prompt_s + answer * candidate.tpot_s / static_cast<double>(candidate.sequences);
  candidate.tokens_per_s = static_cast<double>(candidate.replicas) * answer / request_s;
}

std::vector<ServedMesh> judge_all(const SearchServeFlags& flags) {
  constexpr auto kMostTime = std::chrono::seconds(60);
  constexpr int64_t kMostRanks = 256;  // of one replica
  const Surroundings around = console_surroundings();
  const int64_t devices = find_cluster(flags.plan.cluster, around.read).devices;
  const Clock::time_point start = Clock::now();
  std::vector<ServedMesh> all;
  for (int64_t ranks = 1; ranks <= std::min(devices, kMostRanks); ranks *= 2) {
    for (int64_t pp = 1; pp <= ranks; pp *= 2) {
      ServedMesh one{.tp = ranks / pp, .pp = pp, .replicas = devices / ranks};
      if (Clock::now() - start > kMostTime) {
        one.why_not = "not looked at: a minute was over";
      } else {
        try {
          judge(flags, around, one);
        } catch (const ConfigError& error) {
          one.why_not = error.what();
        }
      }
      all.push_back(std::move(one));
    }
  }
  // The most tokens first; of equal ones the fewest ranks of a replica, which stand as they came.
  std::stable_sort(all.begin(), all.end(), [](const ServedMesh& a, const ServedMesh& b) {
    return a.tokens_per_s > b.tokens_per_s;
  });
  return all;
}

std::string text_of(const SearchServeFlags& flags, const std::vector<ServedMesh>& all,
                    int64_t top) {
  const auto within = [](double ms) { return ms > 0 ? fmt::format("within {:g} ms", ms) : "any"; };
  std::string text =
      fmt::format("{} on {}: prompts of {}, answers of {}; first token {}, next ones {}\n",
                  flags.plan.model, flags.plan.cluster, count_of(flags.prompt, "token"),
                  with_thousands(flags.answer), within(flags.ttft_ms), within(flags.tpot_ms));
  const bool any = all.front().why_not.empty();
  if (any) {
    text += all.front().measured ? "frames as they were measured there\n\n"
                                 : "frames by constants of the device: a guess until they are "
                                   "measured\n\n";
  }
  TextTable good({{"mesh"},
                  {"--max-sequences", Align::kRight},
                  {"--token-budget", Align::kRight},
                  {"TTFT", Align::kRight},
                  {"TPOT", Align::kRight},
                  {"tokens/s of all", Align::kRight}});
  TextTable bad({{"mesh"}, {"why not"}});
  int64_t shown = 0;
  bool refused = false;
  for (const ServedMesh& c : all) {
    if (!c.why_not.empty()) {
      bad.add_row({c.mesh(), c.why_not});
      refused = true;
    } else if (shown++ < top) {
      good.add_row({c.mesh(), with_thousands(c.sequences), with_thousands(c.token_budget),
                    short_seconds(c.ttft_s), short_seconds(c.tpot_s),
                    fmt::format("{:.1f}", c.tokens_per_s)});
    }
  }
  if (any) text += good.str();
  if (!any) text += "no mesh does it\n";
  return text + (refused ? "\n" + bad.str() : "");
}

nlohmann::ordered_json json_of(const SearchServeFlags& flags, const std::vector<ServedMesh>& all,
                               int64_t top) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "serve_search"},
                                 {"model", flags.plan.model},
                                 {"cluster", flags.plan.cluster},
                                 {"prompt", flags.prompt},
                                 {"answer", flags.answer},
                                 {"found", nlohmann::ordered_json::array()},
                                 {"refused", nlohmann::ordered_json::array()}};
  for (const ServedMesh& c : all) {
    const nlohmann::ordered_json mesh = {
        {"dp", c.replicas}, {"tp", c.tp}, {"pp", c.pp}, {"ep", c.ep}};
    if (!c.why_not.empty()) {
      json["refused"].push_back({{"mesh", mesh}, {"why_not", c.why_not}});
    } else if (std::ssize(json["found"]) < top) {
      json["found"].push_back({{"mesh", mesh},
                               {"by", c.measured ? "measured" : "constants"},
                               {"max_sequences", c.sequences},
                               {"token_budget", c.token_budget},
                               {"ttft_s", c.ttft_s},
                               {"tpot_s", c.tpot_s},
                               {"tokens_per_s", c.tokens_per_s}});
    }
  }
  return json;
}

}  // namespace

void add_search_serve(CLI::App& app, SearchServeFlags& flags) {
  add_text(app, "--serve", flags.plan.model, "MODEL",
           "the best mesh to serve this model instead; with --cluster");
  add_real(app, "--ttft", flags.ttft_ms, 0, "with --serve: ms to a first token, at most");
  add_real(app, "--tpot", flags.tpot_ms, 0, "with --serve: ms to every next token, at most");
  add_length(app, "--prompt", flags.prompt, "with --serve: tokens of a prompt (default 512)");
  add_length(app, "--answer", flags.answer, "with --serve: tokens of an answer (default 128)");
  add_choice(app, "--dtype", flags.plan.dtype, kServeTypes, "with --serve: default bf16");
}

void refuse_search_serve(const SearchServeFlags& flags) {
  const SearchServeFlags untouched;
  require_config(
      flags.ttft_ms == untouched.ttft_ms && flags.tpot_ms == untouched.tpot_ms &&
          flags.prompt == untouched.prompt && flags.answer == untouched.answer &&
          flags.plan.dtype == untouched.plan.dtype,
      "--ttft, --tpot, --prompt, --answer and --dtype are of a model that is served: add "
      "--serve MODEL, or leave them out");
}

int run_search_serve(const SearchServeFlags& flags, int64_t top, bool json, Console& console) {
  require_config(!flags.plan.cluster.empty(),
                 "search --serve needs a cluster: give --cluster, such as h100-8, or what tessera "
                 "calibrate wrote");
  const std::vector<ServedMesh> all = judge_all(flags);
  console.out << (json ? json_of(flags, all, top).dump(2) + '\n'
                       : fitted(console, text_of(flags, all, top)));
  return all.front().why_not.empty() ? 0 : static_cast<int>(ExitCode::kDoesNotFit);
}

}  // namespace tessera
