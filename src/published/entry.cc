#include "published/entry.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/step/collective_time.h"
#include "cost/step/workload_limits.h"
#include "published/entry_parts.h"
#include "published/hardware.h"
#include "published/inference.h"
#include "published/words.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int64_t kVocabUnit = 128;  // tables are padded to a multiple of it

// By what the entry calls its software, or else by words of its schedule and sharding.
void read_engine(EntryReading& r) {
  if (const std::optional<Engine>& engine = r.constants.engine) {
    r.run.engine = engine->name;
    r.run.workload.engine = engine->numbers;
    return;
  }
  std::string name;
  for (const char* key : {"engine", "framework", "software", "system", "library"}) {
    if (!name.empty()) break;
    const auto found = r.entry.find(key);
    if (found != r.entry.end() && found->is_string()) {
      name = meaning("engine", lower(found->get<std::string>()));
    }
    if (name.empty()) name = meaning("engine", r.opts.text(key));
  }
  for (const char* key : {"schedule", "zero"}) {
    if (name.empty() && means("engine", r.parallel.text(key), "deepspeed")) name = "deepspeed";
  }
  r.run.engine = name.empty() ? "megatron" : name;
  const auto& find = r.constants.find_engine;
  r.run.workload.engine = (find ? find(r.run.engine) : find_engine(r.run.engine)).numbers;
}

void pad_vocab(EntryReading& r) {
  int64_t& vocab = r.run.workload.model.vocab;
  const int64_t tp = r.run.strategy.tp;
  if (vocab % kVocabUnit == 0 && vocab % tp == 0) return;
  const int64_t unit = kVocabUnit * tp;
  vocab = (vocab + unit - 1) / unit * unit;
}

// What is open is tried later.
void refuse_impossible(const EntryReading& r) {
  check(r.run.workload);
  if (r.tp_open || r.pp_open) return;
  const std::string wrong = why_impossible(r.run.workload, r.run.strategy);
  require_config(wrong.empty(), "{}", wrong);
}

// Layers that predict later tokens are part of the arithmetic that a source reports. They came
// with latent attention.
void infer_later_tokens(EntryReading& r) {
  const std::optional<double> tokens = r.results.real("tokens_per_s_per_gpu");
  const std::optional<double> tflops = r.results.real("tflops_per_gpu");
  if (!r.run.workload.model.latent || r.model.find("mtp_layers") != nullptr) return;
  if (!tokens || !tflops) return;
  if (!has_later_tokens(r.run.workload, *tflops * 1e12 / *tokens)) return;
  r.run.workload.model.mtp_layers = 1;
  r.guess("layers that predict later tokens", "1, by the arithmetic of a token", true);
}

// With virtual stages there is always another micro-batch whose kernels an exchange over the
// network can run beside; inside a node it is too short for that to be worth it.
void guess_expert_overlap(EntryReading& r) {
  const Strategy& s = r.run.strategy;
  Workload& w = r.run.workload;
  const GroupLinks links = links_of(w.cluster, {s.ep, expert_strides_of(s).ep});
  if (!r.opts.text("overlap").empty() || s.virtual_stages == 1 || links.outer == 1) return;
  w.overlap.experts = true;
  r.guess("overlap of the experts' exchange", "yes, with another micro-batch's kernels", false);
}

}  // namespace

EntryReading::EntryReading(const json& json_entry, const PublishedConstants& other)
    : entry(json_entry),
      constants(other),
      model(json_entry, "model"),
      hw(json_entry, "hw"),
      parallel(json_entry, "parallel"),
      batch(json_entry, "batch"),
      opts(json_entry, "opts"),
      results(json_entry, "results"),
      derived(json_entry, "derived") {
  run.id = json_entry.value("id", "");
  run.family = family_of(run.id);
}

void EntryReading::guess(std::string what, std::string taken, bool memory_depends) {
  run.guesses.push_back({std::move(what), std::move(taken)});
  if (memory_depends) run.memory_is_certain = false;
}

void read_cluster(EntryReading& r) {
  const json hardware = r.entry.contains("hw") ? r.entry["hw"] : json::object();
  r.run.workload.cluster =
      cluster_of_text(hardware, r.run.strategy.world(), r.constants.find_cluster, r.run.guesses);
  read_precision(r);
  pad_vocab(r);
}

std::string family_of(const std::string& id) {
  const size_t first = id.find('-');
  if (first == std::string::npos) return id;
  return id.substr(0, id.find('-', first + 1));
}

PublishedRun run_of_entry(const json& entry, const PublishedConstants& constants) {
  EntryReading r(entry, constants);
  read_model(r);
  read_layout(r);
  read_engine(r);
  read_options(r);
  if (r.replicas_open) choose_replicas(r);
  read_cluster(r);
  read_batch(r);
  refuse_impossible(r);
  infer_later_tokens(r);
  guess_expert_overlap(r);
  fill_open_choices(r);
  note_batch(r);
  r.run.strategy.stage_layers = likely_stage_layers(r.run.workload, r.run.strategy);
  read_time(r);
  read_memory(r);
  return std::move(r.run);
}

}  // namespace tessera
