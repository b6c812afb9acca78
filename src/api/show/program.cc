#include "api/show/program.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/fields.h"
#include "api/show/run_fields.h"
#include "api/show/values.h"
#include "api/simulate.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text/text.h"
#include "compile/model/limits.h"
#include "compile/program/memory_parts.h"
#include "draw/memory_curve.h"
#include "draw/step_text.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostInstructions = 20'000;

struct ProgramQuery {
  SimulateQuery run = {};
  int64_t rank = 0;
};

ProgramQuery program_query(const nlohmann::json& request) {
  ProgramQuery query;
  Fields fields(request, "program");
  read_simulated(fields, query.run);
  fields.whole("rank", query.rank, 0);
  fields.finish();
  return query;
}

// One rank of a simulated step. It stays where it is: its times point into its Program.
class ShownProgram {
 public:
  ShownProgram(const ProgramQuery& query, const Surroundings& around)
      : guesses_(), simulation_(simulated(query, around)), rank_(static_cast<int>(query.rank)) {
    const int64_t world = simulation_.timeline().mesh.world();
    require_config(query.rank < world, "program: rank is {}: expected one of 0 to {}", query.rank,
                   world - 1);
    program_ = lower(simulation_.step(), rank_);
    const size_t count = program_.instructions.size();
    require_config(
        count <= kMostInstructions,
        "program: rank {} has {} instructions, and at most {} are shown; use fewer layers "
        "(set model.layers) or micro-batches (global_batch)",
        rank_, with_thousands(static_cast<int64_t>(count)), kMostInstructions);
    const StepTimeline& timeline = simulation_.timeline();
    const int of_class = timeline.classes.of_rank[index(rank_)];
    // Ranks of a class do the same, each on its own part: only the times are shared.
    times_ = {{rank_}, &program_, timeline.ranks[index(of_class)].times};
    TESSERA_CHECK(times_.times.size() == count, "rank {} has {} times of {} instructions", rank_,
                  times_.times.size(), count);
  }
  ShownProgram(const ShownProgram&) = delete;
  ShownProgram& operator=(const ShownProgram&) = delete;

  [[nodiscard]] const StepSimulation& simulation() const { return simulation_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const RankTimeline& rank() const { return times_; }

 private:
  StepSimulation simulated(const ProgramQuery& query, const Surroundings& around) {
    const SimulateQuery run = with_recipe(query.run, around, guesses_);
    RunSpec spec = load_simulated(run, around, guesses_);
    const std::string why = why_by_stages(run, spec);
    require_config(why.empty(), "program: {}; use fewer layers, micro-batches or ranks", why);
    // Before it is simulated, which takes longer; the number is a few more than there are.
    const double about = estimated_instructions(spec, 1) / static_cast<double>(spec.parallel.pp);
    require_config(about <= 2 * static_cast<double>(kMostInstructions),
                   "program: a rank has about {:.0f} instructions, and at most {} are shown; use "
                   "fewer layers (set model.layers) or micro-batches (global_batch)",
                   about, kMostInstructions);
    return {run, std::move(spec), guesses_, around};
  }

  std::vector<Guess> guesses_;
  StepSimulation simulation_;
  int rank_;
  Program program_;
  RankTimeline times_;
};

// The lines of instructions as `plan --program` prints them.
std::vector<std::string> lines_of(const Program& program) {
  const std::string text = to_text(program);
  std::vector<std::string_view> lines = split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t head = lines.size() - program.instructions.size();
  return {lines.begin() + static_cast<ptrdiff_t>(head), lines.end()};
}

std::string_view pass_name(const Instruction& instruction) {
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kInputGrad:
      return "input_grad";
    case Pass::kWeightGrad:
      return "weight_grad";
    case Pass::kReduce:
      return "reduce";
    case Pass::kUpdate:
      return "update";
    case Pass::kRecompute:
      return "recompute";
  }
  return "";
}

// Who waits for whom, by instruction.
struct Waiting {
  std::vector<std::vector<size_t>> waits, signals;
};

Waiting waiting_of(const Program& program) {
  Waiting result;
  result.waits.resize(program.instructions.size());
  result.signals.resize(program.instructions.size());
  std::map<int, size_t> signaller;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].signal >= 0) signaller[program.instructions[i].signal] = i;
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const int event : program.instructions[i].waits) {
      const size_t by = signaller.at(event);
      result.waits[i].push_back(by);
      result.signals[by].push_back(i);
    }
  }
  return result;
}

Json instructions_json(const ShownProgram& shown) {
  const Program& program = shown.program();
  const std::vector<std::string> lines = lines_of(program);
  const Waiting waiting = waiting_of(program);
  Json json = Json::array();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const InstructionTime& time = shown.rank().times[i];
    const bool sends = instruction.stream != StreamKind::kCompute;
    Json one = {{"i", i},
                {"stream", name_of(instruction.stream)},
                {"micro_batch", instruction.micro_batch},
                {"pass", pass_name(instruction)},
                {"unit", instruction.tag.unit},
                {"op", sends ? communication_name(instruction) : name_of(instruction.op)},
                {"text", lines[i]},
                {"begin", time.begin},
                {"start", time.active},
                {"end", time.end},
                {"waits", waiting.waits[i]},
                {"signals", waiting.signals[i]},
                {"reads", instruction.inputs},
                {"writes", instruction.outputs}};
    if (sends) {
      one["group"] = axis_of(instruction);
      one["bytes_sent"] = bytes_sent(program, instruction);
    }
    json.push_back(std::move(one));
  }
  return json;
}

// First and last use of every buffer, for those that are not counted life by life.
std::map<BufferId, std::pair<size_t, size_t>> uses_of(const Program& program) {
  std::map<BufferId, std::pair<size_t, size_t>> uses;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const auto* operands :
         {&program.instructions[i].inputs, &program.instructions[i].outputs}) {
      for (const BufferId id : *operands) {
        if (id == kNoBuffer) continue;
        uses.try_emplace(id, i, i).first->second.second = i;
      }
    }
  }
  return uses;
}

bool is_temporary(ArenaKind arena) {
  return arena == ArenaKind::kActivations || arena == ArenaKind::kCommunication;
}

Json buffers_json(const ShownProgram& shown) {
  const Program& program = shown.program();
  const std::vector<BufferId> held = gradient_buffers_among_activations(program);
  const std::set<BufferId> gradients(held.begin(), held.end());
  const auto uses = uses_of(program);
  std::map<BufferId, Json> lives;
  for (const BufferLife& life : buffer_lives(shown.rank())) {
    lives[life.buffer].push_back({life.first, life.last, life.begin, life.end});
  }
  Json json = Json::array();
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const auto used = uses.find(static_cast<BufferId>(id));
    if (used == uses.end()) continue;
    const auto [first, last] = used->second;
    const bool temporary = is_temporary(buffer.arena);
    Json one = {
        {"id", id},
        {"name", buffer.name},
        {"arena", name_of(buffer.arena)},
        {"offset", buffer.offset},
        {"bytes", buffer.bytes()},
        {"dtype", name_of(buffer.dtype)},
        {"shape", buffer.shape},
        {"part", gradients.contains(static_cast<BufferId>(id)) ? name_of(ArenaKind::kGradients)
                                                               : name_of(buffer.arena)},
        {"first", first},
        {"last", last},
        {"start", temporary ? shown.rank().times[first].begin : 0},
        {"end", temporary ? shown.rank().times[last].end : shown.simulation().timeline().makespan}};
    if (temporary) one["lives"] = lives[static_cast<BufferId>(id)];
    json.push_back(std::move(one));
  }
  return json;
}

// The instruction that begins at a time: the one that made memory so full.
size_t instruction_at(const RankTimeline& rank, double time) {
  for (size_t i = 0; i < rank.times.size(); ++i) {
    if (rank.times[i].begin == time) return i;
  }
  return 0;
}

Json arenas_json(const ShownProgram& shown) {
  const std::vector<MemoryPoint> points = memory_curve(shown.rank());
  Json json = Json::array();
  for (const ArenaKind arena : kTrainingArenas) {
    const int64_t bytes = shown.program().arena_bytes[static_cast<size_t>(arena)];
    Json one = {{"name", name_of(arena)}, {"bytes", bytes}};
    int64_t fullest = is_temporary(arena) ? 0 : bytes;
    double at = 0;
    for (const MemoryPoint& point : points) {
      if (!is_temporary(arena)) break;
      const int64_t used = arena == ArenaKind::kActivations ? point.activations + point.gradients
                                                            : point.communication;
      if (used <= fullest) continue;
      fullest = used;
      at = point.time;
    }
    one["fullest_bytes"] = fullest;
    if (is_temporary(arena) && fullest > 0) {
      one["fullest_at"] = instruction_at(shown.rank(), at);
      one["fullest_s"] = at;
    }
    json.push_back(std::move(one));
  }
  return json;
}

// The moment at which most memory of all arenas together holds something.
Json fullest_json(const ShownProgram& shown) {
  int64_t always = 0;
  for (const ArenaKind arena : kTrainingArenas) {
    if (!is_temporary(arena)) {
      always += shown.program().arena_bytes[static_cast<size_t>(arena)];
    }
  }
  int64_t most = 0;
  double at = 0;
  for (const MemoryPoint& point : memory_curve(shown.rank())) {
    const int64_t used = point.activations + point.gradients + point.communication;
    if (used <= most) continue;
    most = used;
    at = point.time;
  }
  return {
      {"bytes", always + most}, {"instruction", instruction_at(shown.rank(), at)}, {"time", at}};
}

Json program_json(const ShowValues& values, const Surroundings& around) {
  const ShownProgram shown(program_query(values.request()), around);
  const Program& program = shown.program();
  const StepSimulation& simulation = shown.simulation();
  Json json = document_head("program", program.mesh, simulation.step().layout.num_parameters);
  json.erase("schema_version");
  json.erase("kind");
  json["cluster"] = cluster_json(simulation.machine().used, simulation.machine().named.devices);
  json["step_s"] = simulation.timeline().makespan;
  const PlannedRank planned{program.rank, memory_parts(program), traffic_of(program),
                            static_cast<int64_t>(program.instructions.size()), digest_of(program)};
  Json rank = rank_json(program.mesh, planned);
  rank["num_instructions"] = rank["instructions"];
  rank.erase("instructions");
  json.update(rank);
  json["micro_batches"] = program.micro_batches;
  json["weight_versions"] = program.weight_versions;
  json["streams"] = Json::array();
  for (int stream = 0; stream < kNumStreams; ++stream) {
    json["streams"].push_back(name_of(static_cast<StreamKind>(stream)));
  }
  json["arenas"] = arenas_json(shown);
  json["fullest"] = fullest_json(shown);
  json["instructions"] = instructions_json(shown);
  json["buffers"] = buffers_json(shown);
  json["guesses"] = guesses_json(simulation.guesses());
  return json;
}

std::string program_text(const ShowValues& values, const Surroundings& around) {
  const ShownProgram shown(program_query(values.request()), around);
  const Json fullest = fullest_json(shown);
  return fmt::format("{}digest {}\nfullest at instruction {}: {} of {}\n", to_text(shown.program()),
                     digest_of(shown.program()), fullest.at("instruction").dump(),
                     human_bytes(fullest.at("bytes").get<int64_t>()),
                     human_bytes(shown.program().total_bytes()));
}

}  // namespace

ShowTopic program_topic() {
  static const std::vector<ShowField> fields =
      with_run_fields({{"rank", ShowField::Kind::kWhole, "", "whose program (default 0)", 0},
                       {"no_contention", ShowField::Kind::kTruth, "",
                        "let kernels keep their speed beside communication"},
                       {"slow", ShowField::Kind::kTexts, "", "a rank whose kernels take longer", 0,
                        0, "", "rank=R,factor=X"}});
  return {"program",
          "What one rank does in a step, and where in memory each buffer lies when.",
          "--run-file examples/demo.toml --rank 0",
          fields,
          program_json,
          for_terminals(program_text)};
}

}  // namespace tessera
