#include "serve/start_request.h"

#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

using serve::Admission;
using serve::StartOptions;

// What each axis of training is in serving, where it is anything else.
std::string_view instead_of(std::string_view name) {
  if (name == "fsdp" || name == "zero") {
    return "there are no optimizer states to shard: use tp or pp to split the weights";
  }
  if (name == "cp") {
    return "a long prompt is computed in chunks that fill all stages: use pp or tp";
  }
  return "it is a setting of training: leave it out";
}

void refuse_other_axes(const std::string& mesh) {
  static const std::set<std::string_view> known = {"dp", "tp", "pp", "ep"};
  for (const std::string_view part : split(mesh, ',')) {
    const std::string_view name = trim(part.substr(0, part.find('=')));
    require_config(known.contains(name), "--mesh {}: serving knows dp, tp, pp and ep, not '{}': {}",
                   mesh, name, instead_of(name));
  }
}

void apply_mesh(const std::string& mesh, StartOptions& start) {
  if (mesh.empty()) return;
  const ParallelSpec parallel = parse_mesh(mesh, {});
  refuse_other_axes(mesh);
  start.replicas = static_cast<int>(std::min<int64_t>(parallel.dp, INT32_MAX));
  start.ranks.tp = parallel.tp;
  start.ranks.pp = parallel.pp;
  start.ranks.ep = parallel.ep;
}

DType dtype_of(const std::string& name) {
  if (name == "f64") return DType::kF64;
  return name == "bf16" ? DType::kBF16 : DType::kF32;
}

// One rank is a thread of this process, which spares a copy of every frame; several are processes,
// so that one that is lost does not take the server along.
void settle_processes(const ServeCommandOptions& options, StartOptions& start) {
  require_config(!options.threads || options.restarts <= 0,
                 "--restarts {} starts lost processes again, but with --threads ranks are threads "
                 "of this one: leave out one of them",
                 options.restarts);
  const bool several = start.replicas * start.ranks.tp * start.ranks.pp > 1;
  start.processes = !options.threads && (several || options.restarts > 0);
  start.restarts = static_cast<int>(options.restarts < 0 ? kUsualRestarts : options.restarts);
  if (!start.processes) start.restarts = 0;
}

}  // namespace

StartOptions start_request(const ServeCommandOptions& options, const Environment& environment) {
  require_config(options.device == "cpu",
                 "--device {}: serving runs on the CPU alone as yet: leave it out, or use --device "
                 "cpu",
                 options.device);
  require_config(options.restarts <= INT32_MAX, "--restarts is {}: use 0 to {}", options.restarts,
                 INT32_MAX);
  require_config(options.pages == 0 || options.memory_gib == 0,
                 "--pages {} and --memory-gib {} both say how large the cache is: give one of them",
                 options.pages, options.memory_gib);
  StartOptions start;
  start.ranks.model = options.model;
  apply_mesh(options.mesh, start);
  start.ranks.dtype = dtype_of(options.dtype);
  start.ranks.max_context = options.max_context;
  start.ranks.page_size = options.page;
  start.ranks.num_pages = options.pages;
  start.ranks.memory_bytes = static_cast<int64_t>(std::llround(options.memory_gib * kGibibyte));
  start.ranks.max_tokens = options.token_budget;
  start.ranks.max_sequences = options.max_sequences;
  start.ranks.max_rows = options.max_sequences;
  start.batch.token_budget = options.token_budget;
  start.batch.admission =
      options.admission == "guarantee" ? Admission::kGuarantee : Admission::kExpected;
  start.batch.prefix_cache = !options.no_prefix_cache;
  start.most_waiting = options.queue;
  start.chat_template = options.chat_template;
  start.tokenizer = options.tokenizer;
  start.name = options.name;
  start.trace = options.trace;
  start.environment = environment;
  settle_processes(options, start);
  return start;
}

}  // namespace tessera
