#include "serve/plan/named_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text/json.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/hf_config.h"
#include "spec/run_file/run_file.h"

namespace tessera::serve {
namespace {

// The text of a file that may not be there.
std::optional<std::string> text_at(const std::string& path, const FileReader& read) {
  if (!read) return std::nullopt;
  try {
    return read(path);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

NamedModel find_named_model(const std::string& name, const FileReader& read) {
  NamedModel found;
  const std::string resolved = name + "/resolved.json";
  if (const std::optional<std::string> run = text_at(resolved, read)) {
    const RunSpec spec = run_spec_from_json(parse_json(*run, resolved));
    found.spec.model = spec.model;
    found.made_for = spec.train.seq_len;
  } else {
    found.spec.model = find_model(name, read).model;
    const std::string config = hf_config_path(name);
    if (const std::optional<std::string> text = text_at(config, read)) {
      found.made_for = positions_of_hf_config(*text, config);
    }
  }
  ModelSpec& model = found.spec.model;
  if (model.positions == PositionKind::kLearned) {
    found.made_for = std::max(found.made_for, model.max_positions);
  }
  if (model.preset.empty()) model.preset = name;
  return found;
}

}  // namespace tessera::serve
