#include "train/plan_report.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "compile/pipeline/schedule/replay.h"
#include "spec/run_file/validate.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
// What cuBLASLt and cuDNN load beside the arenas, at most.
constexpr int64_t kGpuLibraryBytes = int64_t{512} << 20;
// What a plan for a GPU supposes where there is none to ask: an H100's. cluster.memory_gib says
// more.
constexpr double kAbsentGpuBytes = 80 * kGib;

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) == 1) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " x ", name_of(axis), mesh.size(axis));
  }
  const std::string ranks = count_of(mesh.world(), "rank");
  return text.empty() ? ranks : fmt::format("{} ({})", text, ranks);
}

// All but the inner part of fsdp where there is none.
std::vector<Axis> reported_axes(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis axis : kAllAxes) {
    if (axis != Axis::kFsdpIn || mesh.size(axis) > 1) axes.push_back(axis);
  }
  return axes;
}

// Sum over ranks of ranks[i][path...].
int64_t total(const nlohmann::ordered_json& report, const std::string& category) {
  int64_t sum = 0;
  for (const auto& rank : report.at("ranks")) {
    sum += rank.at("memory_bytes").at(category).get<int64_t>();
  }
  return sum;
}

struct Row {
  int64_t calls = 0;
  int64_t bytes = 0;
};
using TrafficRows = std::map<std::pair<std::string, std::string>, Row>;

TrafficRows total_traffic(const nlohmann::ordered_json& report) {
  TrafficRows rows;
  for (const auto& rank : report.at("ranks")) {
    for (const auto& entry : rank.at("traffic")) {
      Row& row = rows[{entry.at("group").get<std::string>(), entry.at("op").get<std::string>()}];
      row.calls += entry.at("calls").get<int64_t>();
      row.bytes += entry.at("bytes_sent").get<int64_t>();
    }
  }
  return rows;
}

std::string memory_table(const Program& program) {
  TextTable memory(
      {{"memory of a rank", Align::kLeft}, {"bytes", Align::kRight}, {"", Align::kRight}});
  for (const ArenaKind arena : kAllArenas) {
    const int64_t bytes = program.arena_bytes[static_cast<size_t>(arena)];
    memory.add_row({std::string(name_of(arena)), with_thousands(bytes), human_bytes(bytes)});
  }
  memory.add_rule();
  memory.add_row(
      {"total", with_thousands(program.total_bytes()), human_bytes(program.total_bytes())});
  return memory.str();
}

// "0-3" for the layers of a stage, and what else it holds.
std::string layers_text(const StagePlan& stages, int stage) {
  const auto head = static_cast<int>(stages.stage_of_unit.size()) - 1;
  int first = 0;
  int last = -1;
  for (int unit = 1; unit < head; ++unit) {
    if (stages.stage_of(unit) != stage) continue;
    if (last < 0) first = unit - 1;
    last = unit - 1;
  }
  std::vector<std::string> parts;
  if (stages.stage_of(0) == stage) parts.emplace_back("embed");
  if (last == first) parts.push_back(std::to_string(first));
  if (last > first) parts.push_back(fmt::format("{}-{}", first, last));
  if (stages.stage_of(head) == stage) parts.emplace_back("head");
  return fmt::format("{}", fmt::join(parts, " "));
}

// One column per rank of the pipeline: they hold different things.
std::string pipeline_tables(const CompiledRun& run) {
  const StagePlan& stages = run.step.stages;
  std::vector<const Program*> ranks;
  for (const Program& program : run.programs) {
    const bool first_of_its_kind =
        run.step.mesh.coord(program.rank, Axis::kPp) == static_cast<int64_t>(ranks.size());
    if (first_of_its_kind) ranks.push_back(&program);
  }
  std::vector<TextTable::Column> columns = {{"rank of the pipeline", Align::kLeft}};
  for (size_t r = 0; r < ranks.size(); ++r)
    columns.push_back({fmt::format("pp{}", r), Align::kRight});
  TextTable table(columns);
  const auto row = [&](const std::string& name, const auto& cell) {
    std::vector<std::string> cells = {name};
    for (const Program* program : ranks) cells.push_back(cell(*program));
    table.add_row(cells);
  };
  const auto by_stage = [](const Program& program, const auto& text) {
    std::vector<std::string> parts;
    for (const auto& [stage, live] : program.live_micro_batches) parts.push_back(text(stage, live));
    return fmt::format("{}", fmt::join(parts, " | "));
  };
  row("layers", [&](const Program& program) {
    return by_stage(program, [&](int stage, int) { return layers_text(stages, stage); });
  });
  row("micro-batches in flight", [&](const Program& program) {
    return by_stage(program, [](int, int live) { return std::to_string(live); });
  });
  if (stages.schedule.asynchronous) {
    row("versions of the weights",
        [](const Program& program) { return std::to_string(program.weight_versions); });
  }
  table.add_rule();
  for (const ArenaKind arena : kAllArenas) {
    row(std::string(name_of(arena)), [&](const Program& program) {
      return human_bytes(program.arena_bytes[static_cast<size_t>(arena)]);
    });
  }
  table.add_rule();
  row("total", [](const Program& program) { return human_bytes(program.total_bytes()); });
  const ScheduleFacts facts = facts_of(replay(stages.schedule));
  return fmt::format("pipeline  {}, {} stages, bubble {:.1f} % (forward 1, backward 2)\n\n{}",
                     stages.schedule.name, stages.stages(), 100 * facts.bubble, table.str());
}

std::string mlp_text(const ModelSpec& model) {
  if (model.experts == 0) return fmt::format("ffn {}", model.ffn);
  return fmt::format("{} of {} of ffn {}", model.experts_per_token,
                     count_of(model.experts, "expert"), model.moe_ffn);
}

std::string advice(const CompiledRun& run, ArenaKind largest) {
  const ParallelSpec& p = run.step.spec.parallel;
  const bool states = largest == ArenaKind::kParameters || largest == ArenaKind::kGradients ||
                      largest == ArenaKind::kOptimizer;
  if (states && p.zero < 3) {
    return fmt::format("raise parallel.zero from {} to {} or use more ranks (fsdp, tp)", p.zero,
                       p.zero + 1);
  }
  if (states) return "use more ranks (fsdp, tp)";
  if (run.step.spec.train.micro_batch > 1) return "lower train.micro_batch";
  return "raise tp with sequence_parallel, or lower train.seq_len";
}

// The host only puts work on the GPU. Ranks that outnumber the GPUs share them.
void use_gpu_defaults(RunSpec& spec, int64_t sharers) {
  if (spec.train.threads == 0) spec.train.threads = 1;
  if (spec.cluster.memory_gib > 0) return;
  const cuda::GpuInfo gpu = cuda::gpu_info(0);
  const auto gpus = std::max<int64_t>(1, cuda::num_gpus());
  const int64_t ranks_per_gpu = (sharers + gpus - 1) / gpus;
  const auto room = gpu.why_not.empty() ? static_cast<double>(gpu.free_bytes) : kAbsentGpuBytes;
  spec.cluster.memory_gib = room / kGib / static_cast<double>(ranks_per_gpu);
}

}  // namespace

void choose_device(RunSpec& spec) {
  if (spec.train.device != TrainDevice::kAuto) return;
  const bool alone = spec.parallel.world() == 1;
  spec.train.device =
      alone && cuda::gpu_info(0).why_not.empty() ? TrainDevice::kCuda : TrainDevice::kCpu;
}

void use_machine_defaults(RunSpec& spec, int64_t ranks_on_host) {
  const int64_t sharers = ranks_on_host > 0 ? ranks_on_host : spec.parallel.world();
  choose_device(spec);
  if (spec.train.device == TrainDevice::kCuda) use_gpu_defaults(spec, sharers);
  if (spec.train.threads == 0) {
    const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    spec.train.threads = std::max<int64_t>(1, cores / sharers);
  }
  if (spec.cluster.memory_gib <= 0) {
    struct sysinfo info = {};
    sysinfo(&info);
    spec.cluster.memory_gib = static_cast<double>(info.totalram) *
                              static_cast<double>(info.mem_unit) / kGib /
                              static_cast<double>(sharers);
  }
}

CompiledRun compile_run(RunSpec spec) {
  use_machine_defaults(spec);
  CompiledRun run;
  run.step = build_step(spec, StepKind::kTraining);
  run.programs = compile_ranks(run.step);
  return run;
}

nlohmann::ordered_json report_head(const StepGraph& step) {
  nlohmann::ordered_json json;
  json["schema_version"] = kPlanSchemaVersion;
  json["world"] = step.mesh.world();
  for (const Axis axis : reported_axes(step.mesh)) {
    json["mesh"][std::string(name_of(axis))] = step.mesh.size(axis);
  }
  json["parameters"] = step.layout.num_parameters;
  json["ranks"] = nlohmann::ordered_json::array();
  return json;
}

nlohmann::ordered_json rank_json(const Mesh& mesh, int rank,
                                 const std::array<int64_t, kNumArenas>& arena_bytes,
                                 const std::vector<Traffic>& traffic, int64_t instructions,
                                 const std::string& digest) {
  nlohmann::ordered_json json;
  json["rank"] = rank;
  for (const Axis axis : reported_axes(mesh)) {
    json["coords"][std::string(name_of(axis))] = mesh.coord(rank, axis);
  }
  int64_t sum = 0;
  for (const ArenaKind arena : kAllArenas) {
    const int64_t bytes = arena_bytes[static_cast<size_t>(arena)];
    json["memory_bytes"][std::string(name_of(arena))] = bytes;
    sum += bytes;
  }
  json["memory_bytes"]["total"] = sum;
  json["traffic"] = nlohmann::ordered_json::array();
  for (const Traffic& t : traffic) {
    json["traffic"].push_back(
        {{"group", t.group}, {"op", t.op}, {"calls", t.calls}, {"bytes_sent", t.bytes_sent}});
  }
  json["instructions"] = instructions;
  json["digest"] = digest;
  return json;
}

nlohmann::ordered_json plan_json(const CompiledRun& run) {
  nlohmann::ordered_json json = report_head(run.step);
  for (const Program& program : run.programs) {
    json["ranks"].push_back(
        rank_json(run.step.mesh, program.rank, program.arena_bytes, traffic_of(program),
                  static_cast<int64_t>(program.instructions.size()), digest_of(program)));
  }
  return json;
}

std::string plan_table(const CompiledRun& run) {
  const RunSpec& spec = run.step.spec;
  const Program& program = run.programs.front();
  std::string text = fmt::format(
      "model     {} layers, hidden {}, {}, heads {}/{}, vocab {}, {}: {} parameters\n"
      "mesh      {}, ZeRO-{}, sequence parallel {}\n"
      "batch     {} of {} tokens = {} per rank x {} x {}, {}\n\n",
      spec.model.layers, spec.model.hidden, mlp_text(spec.model), spec.model.heads,
      spec.model.kv_heads, spec.model.vocab, spec.model.tied ? "tied" : "untied",
      with_thousands(run.step.layout.num_parameters), mesh_text(run.step.mesh), spec.parallel.zero,
      spec.parallel.sequence_parallel ? "on" : "off", count_of(spec.train.global_batch, "sequence"),
      spec.train.seq_len, spec.train.micro_batch, count_of(spec.parallel.replicas(), "replica"),
      count_of(accumulation(spec), "micro-batch"), name_of(spec.train.dtype));
  text += (run.step.mesh.size(Axis::kPp) > 1 ? pipeline_tables(run) : memory_table(program)) + "\n";
  TextTable traffic({{"sent by rank 0 per step", Align::kLeft},
                     {"collective", Align::kLeft},
                     {"calls", Align::kRight},
                     {"bytes", Align::kRight},
                     {"", Align::kRight}});
  const std::vector<Traffic> sent = traffic_of(program);
  for (const Traffic& t : sent) {
    traffic.add_row({t.group, t.op, with_thousands(t.calls), with_thousands(t.bytes_sent),
                     human_bytes(t.bytes_sent)});
  }
  text += sent.empty() ? std::string("one rank: nothing is sent\n") : traffic.str();
  text += fmt::format("\n{} instructions per step, program {}\n", program.instructions.size(),
                      digest_of(program));
  return text;
}

std::string program_text(const CompiledRun& run, int64_t rank) {
  return to_text(run.programs[static_cast<size_t>(rank)]);
}

bool plan_equals_measured(const nlohmann::ordered_json& plan,
                          const nlohmann::ordered_json& measured) {
  return plan.at("ranks") == measured.at("ranks");
}

std::string planned_measured_table(const nlohmann::ordered_json& plan,
                                   const nlohmann::ordered_json& measured) {
  const std::string ranks = count_of(plan.at("world").get<int64_t>(), "rank") + " together";
  TextTable table({{ranks, Align::kLeft},
                   {"planned", Align::kRight},
                   {"measured", Align::kRight},
                   {"", Align::kLeft}});
  const auto add = [&](const std::string& name, int64_t planned, int64_t seen) {
    table.add_row({name, with_thousands(planned), with_thousands(seen),
                   planned == seen ? "equal" : "DIFFERS"});
  };
  for (const ArenaKind arena : kAllArenas) {
    const std::string name(name_of(arena));
    add("memory, " + name, total(plan, name), total(measured, name));
  }
  add("memory, total", total(plan, "total"), total(measured, "total"));
  table.add_rule();
  const TrafficRows planned = total_traffic(plan);
  TrafficRows seen = total_traffic(measured);
  TrafficRows keys = planned;
  keys.insert(seen.begin(), seen.end());
  for (const auto& [key, unused] : keys) {
    const auto found = planned.find(key);
    const Row plan_row = found == planned.end() ? Row{} : found->second;
    const std::string name = key.first + " " + key.second;
    add(name + ", calls per step", plan_row.calls, seen[key].calls);
    add(name + ", bytes per step", plan_row.bytes, seen[key].bytes);
  }
  std::string text = table.str();
  text += plan_equals_measured(plan, measured)
              ? "every rank: memory, traffic and executed program equal the plan\n"
              : "some rank DIFFERS from the plan: compare plan.json and summary.json\n";
  return text;
}

void require_room_on_gpu(std::span<const Program* const> programs, int gpu) {
  const cuda::GpuInfo info = cuda::gpu_info(gpu);
  require(info.why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"", info.why_not);
  std::array<int64_t, kNumArenas> bytes{};
  int64_t needed = kGpuLibraryBytes;
  for (const Program* program : programs) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += program->arena_bytes[i];
    needed += program->total_bytes();
  }
  if (needed <= info.free_bytes) return;
  std::string parts = fmt::format("libraries {}", human_bytes(kGpuLibraryBytes));
  for (const ArenaKind arena : kAllArenas) {
    parts += fmt::format(", {} {}", name_of(arena), human_bytes(bytes[static_cast<size_t>(arena)]));
  }
  throw Error(
      fmt::format("does not fit: {} on GPU {} ({}) needs {}, {} are free, {} too few: {}; lower "
                  "train.micro_batch, use parallel.recompute, or more GPUs",
                  programs.size() == 1 ? "the rank" : fmt::format("{} ranks", programs.size()), gpu,
                  info.name, human_bytes(needed), human_bytes(info.free_bytes),
                  human_bytes(needed - info.free_bytes), parts),
      ExitCode::kDoesNotFit);
}

void require_fit(const CompiledRun& run) {
  const double limit = run.step.spec.cluster.memory_gib * kGib;
  for (const Program& program : run.programs) {
    const auto needed = static_cast<double>(program.total_bytes());
    if (needed <= limit) continue;
    const auto largest = static_cast<size_t>(
        std::max_element(program.arena_bytes.begin(), program.arena_bytes.end()) -
        program.arena_bytes.begin());
    throw Error(
        fmt::format(
            "does not fit: rank {} ({}) needs {} but has {}, {} too much; the largest part is "
            "{} with {}; {}",
            program.rank, program.mesh.describe(program.rank), human_bytes(program.total_bytes()),
            human_bytes(static_cast<int64_t>(limit)),
            human_bytes(static_cast<int64_t>(needed - limit)), name_of(kAllArenas[largest]),
            human_bytes(program.arena_bytes[largest]), advice(run, kAllArenas[largest])),
        ExitCode::kDoesNotFit);
  }
}

}  // namespace tessera
