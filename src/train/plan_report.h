// A compiled run, and what can be said about it before it runs: memory and traffic to the byte.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

inline constexpr int kPlanSchemaVersion = 1;

struct CompiledRun {
  StepGraph step;
  std::vector<Program> programs;  // one per rank
};

// train.device = "auto" becomes what it stands for here. Ranks that are processes do so before they
// compare their run files.
void choose_device(RunSpec& spec);

// Fills what depends on this machine: compute threads per rank, memory per rank. 0 ranks on this
// host: all of them.
void use_machine_defaults(RunSpec& spec, int64_t ranks_on_host = 0);

// `spec` must have gone through resolve(). Calls use_machine_defaults.
CompiledRun compile_run(RunSpec spec);

// The contract shape: world, mesh, parameters, and per rank memory, traffic, instructions, digest.
nlohmann::ordered_json plan_json(const CompiledRun& run);

// One entry of "ranks" from measured or planned values.
nlohmann::ordered_json rank_json(const Mesh& mesh, int rank,
                                 const std::array<int64_t, kNumArenas>& arena_bytes,
                                 const std::vector<Traffic>& traffic, int64_t instructions,
                                 const std::string& digest);
// The head of the same shape, with an empty "ranks".
nlohmann::ordered_json report_head(const StepGraph& step);

std::string plan_table(const CompiledRun& run);
std::string program_text(const CompiledRun& run, int64_t rank);

// "planned | measured" for every memory category, and every group and collective.
std::string planned_measured_table(const nlohmann::ordered_json& plan,
                                   const nlohmann::ordered_json& measured);
// Every value of every rank equal.
bool plan_equals_measured(const nlohmann::ordered_json& plan,
                          const nlohmann::ordered_json& measured);

// Before anything is allocated: the arenas of the ranks that share GPU `gpu`, against what is free
// there. Throws Error with ExitCode::kDoesNotFit and every part.
void require_room_on_gpu(std::span<const Program* const> programs, int gpu);

// Throws Error with ExitCode::kDoesNotFit: which rank, by how much, the largest term, what helps.
void require_fit(const CompiledRun& run);

}  // namespace tessera
