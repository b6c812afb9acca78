#include "serve/serve_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "api/schema.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using serve::RankBytes;
using serve::ServePlan;
using serve::StartedModel;
using serve::StartOptions;

const RankBytes& largest_rank(const ServePlan& plan) {
  return *std::max_element(
      plan.ranks.begin(), plan.ranks.end(),
      [](const RankBytes& a, const RankBytes& b) { return a.total() < b.total(); });
}

std::string mesh_text(const StartOptions& start) {
  const auto ranks = start.replicas * start.ranks.tp * start.ranks.pp;
  std::string text =
      fmt::format("dp={} pp={} tp={}", start.replicas, start.ranks.pp, start.ranks.tp);
  if (start.ranks.ep > 1) text += fmt::format(" ep={}", start.ranks.ep);
  const std::string_view what = start.processes ? "process" : "thread";
  const std::string_view plural = start.processes ? "processes" : "threads";
  return fmt::format("{}: {} rank{} as {}, {} core{} each", text, ranks, ranks == 1 ? "" : "s",
                     ranks == 1 ? fmt::format("a {}", what) : std::string(plural),
                     start.ranks.threads, start.ranks.threads == 1 ? "" : "s");
}

std::string speech_text(const serve::Words& words) {
  if (!words.has_text()) return "token ids alone (no tokenizer)";
  return words.has_chat() ? "text and chats" : "text (no chat template: /v1/completions alone)";
}

int64_t other_bytes(const RankBytes& rank) {
  return rank.total() - rank.at(ArenaKind::kParameters) - rank.at(ArenaKind::kCache);
}

}  // namespace

std::string summary_text(const StartOptions& start, const StartedModel& model) {
  const ServePlan& plan = model.plan();
  const serve::ServeShape& shape = plan.shape;
  const RankBytes& rank = largest_rank(plan);
  StartOptions settled = start;
  settled.ranks.threads = plan.options.threads;
  std::string text = fmt::format("model   {} in {}: {}\n", model.served().id,
                                 name_of(plan.options.dtype), speech_text(*model.served().words));
  text += fmt::format("mesh    {}\n", mesh_text(settled));
  text += fmt::format("cache   {} pages of {} tokens{}: {} tokens, contexts of up to {}\n",
                      with_thousands(shape.num_pages), shape.page_size,
                      start.replicas > 1 ? " in each replica" : "",
                      with_thousands(shape.num_pages * shape.page_size),
                      with_thousands(shape.max_context));
  text += fmt::format("memory  {} in all; the largest rank: {} weights, {} cache, {} other\n",
                      human_bytes(plan.total_bytes() * start.replicas),
                      human_bytes(rank.at(ArenaKind::kParameters)),
                      human_bytes(rank.at(ArenaKind::kCache)), human_bytes(other_bytes(rank)));
  return text;
}

nlohmann::ordered_json summary_json(const StartOptions& start, const StartedModel& model,
                                    const std::string& url) {
  const ServePlan& plan = model.plan();
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "serving"},
                                 {"url", url},
                                 {"model", model.served().id},
                                 {"dtype", name_of(plan.options.dtype)},
                                 {"has_text", model.served().words->has_text()},
                                 {"has_chat", model.served().words->has_chat()},
                                 {"mesh",
                                  {{"dp", start.replicas},
                                   {"pp", start.ranks.pp},
                                   {"tp", start.ranks.tp},
                                   {"ep", start.ranks.ep}}},
                                 {"processes", start.processes},
                                 {"threads_per_rank", plan.options.threads},
                                 {"max_context", plan.shape.max_context},
                                 {"page_tokens", plan.shape.page_size},
                                 {"pages", plan.shape.num_pages},
                                 {"page_bytes", plan.page_bytes},
                                 {"bytes", plan.total_bytes() * start.replicas},
                                 {"ranks", nlohmann::ordered_json::array()}};
  for (const RankBytes& rank : plan.ranks) {
    json["ranks"].push_back({{"weight_bytes", rank.at(ArenaKind::kParameters)},
                             {"cache_bytes", rank.at(ArenaKind::kCache)},
                             {"other_bytes", other_bytes(rank)}});
  }
  return json;
}

}  // namespace tessera
