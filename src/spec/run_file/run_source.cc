#include "spec/run_file/run_source.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/foreign_names.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// What stands where a run file should, and is none: a model's name, or a key with its value.
std::string mistaken_file(const std::string& file, bool may_be_model) {
  const std::vector<std::string_view> models = model_names();
  const std::string small = lower_case(file);
  if (std::find(models.begin(), models.end(), small) != models.end()) {
    return may_be_model ? fmt::format("; it is a model: --model {} --cluster h100-8", small)
                        : fmt::format(
                              "; it is a model: write a run file with preset = \"{}\" in "
                              "[model]",
                              small);
  }
  const size_t equals = file.find('=');
  const std::string key = equals == std::string::npos ? "" : key_called(file.substr(0, equals));
  return key.empty() ? ""
                     : fmt::format("; a key is changed by --set {}{}", key, file.substr(equals));
}

}  // namespace

std::string RunSource::text(const FileReader& read) const {
  const char* hint = may_be_model ? ", or --model llama-3-8b --cluster h100-8" : "";
  require_config(!file.empty(), "no run file given: try 'examples/demo.toml'{}", hint);
  try {
    return read(file);
  } catch (const ConfigError& error) {
    const std::string meant = mistaken_file(file, may_be_model);
    if (meant.empty()) throw;
    throw ConfigError(error.what() + meant);
  }
}

std::vector<Setting> RunSource::settings() const {
  std::vector<Setting> all = flags;
  for (const std::string& text : overrides) all.push_back(setting_of_set(text));
  refuse_conflicts(all, mesh);
  all.insert(all.begin(), under.begin(), under.end());
  return all;
}

RunSpec RunSource::load(const FileReader& read) const {
  const std::vector<Setting> all = settings();
  const bool lacks_file = may_lack_file && file.empty() && !all.empty();
  RunSpec spec = parse_run(lacks_file ? "" : text(read), file, all, read);
  if (!mesh.empty()) spec.parallel = parse_mesh(mesh, spec.parallel);
  read_schedule_file(spec.parallel, read);
  if (ranks > 0) require_world(spec.parallel, ranks, spec.model.heads);
  resolve(spec);
  return spec;
}

}  // namespace tessera
