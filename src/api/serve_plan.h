// The request "serve_plan": what serving a model on a mesh takes, without starting it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/surroundings.h"
#include "serve/plan/serve_report.h"

namespace tessera {

struct ServePlanQuery {
  std::string model = "";                 // a name, a model file, a Hugging Face folder, or a run
  std::string cluster = "";               // empty: this machine
  std::string mesh = "";                  // "tp=8,pp=2", instead of the three
  std::string tp = "", pp = "", ep = "";  // as people write counts; empty: 1
  std::string dtype = "";       // of kServeTypes; empty: bf16 on a cluster, f32 on this machine
  int64_t max_context = 0;      // 0: what the model was made for
  int64_t max_sequences = 64;   // of one frame
  int64_t token_budget = 2048;  // of one frame
  int64_t page = 16;            // tokens
  double memory_gib = 0;  // of a rank on a cluster, of all ranks on this machine; 0: what it has
  int64_t threads = 0;    // of a rank; 0: 1 on a cluster, cores / ranks on this machine
  // Without it nothing is said of what would make it fit, which takes many plans to find.
  bool advice = true;
};
inline constexpr const char* kServeTypes = "bf16|f32|f64";
ServePlanQuery serve_plan_query(const nlohmann::json& request);

// Throws ConfigError for what cannot be served; what does not fit is reported.
serve::ServeReport plan_to_serve(const ServePlanQuery& query, const Surroundings& around);

}  // namespace tessera
