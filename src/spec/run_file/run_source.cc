#include "spec/run_file/run_source.h"

#include "base/error.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {

std::string RunSource::text(const FileReader& read) const {
  const char* hint = may_be_model ? ", or --model llama-3-8b --cluster h100-8" : "";
  require_config(!file.empty(), "no run file given: try 'examples/demo.toml'{}", hint);
  return read(file);
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
