#include "plan/report/model_text.h"

#include <fmt/format.h>

#include "base/text/text.h"

namespace tessera {
namespace {

std::string mlp_text(const ModelSpec& model) {
  if (model.experts == 0) return fmt::format("ffn {}", with_thousands(model.ffn));
  return fmt::format("{} of {} of ffn {}", model.experts_per_token,
                     count_of(model.experts, "expert"), with_thousands(model.moe_ffn));
}

}  // namespace

std::string model_text(const ModelSpec& m, int64_t num_parameters) {
  const std::string& name = m.preset.empty() ? m.hf : m.preset;
  return fmt::format("{}{} layers, hidden {}, {}, heads {}/{}, vocab {}, {}: {} parameters",
                     name.empty() ? "" : name + ", ", with_thousands(m.layers),
                     with_thousands(m.hidden), mlp_text(m), m.heads, m.kv_heads,
                     with_thousands(m.vocab), m.tied ? "tied" : "untied",
                     with_thousands(num_parameters));
}

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) == 1) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " x ", name_of(axis), mesh.size(axis));
  }
  return text.empty() ? "1 rank" : fmt::format("{} ({} ranks)", text, with_thousands(mesh.world()));
}

}  // namespace tessera
