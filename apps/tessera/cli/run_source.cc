#include "base/error.h"
#include "cli/flags.h"
#include "cli/read_text.h"
#include "commands.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {

void RunSource::add_file_and_set(CLI::App& app) {
  add_text(app, "run_file", file, "RUN.toml", "the run file");
  add_list(app, "--set", overrides, "A.B=C", "override a key: --set train.steps=5 (repeatable)");
}

void RunSource::add_mesh(CLI::App& app) {
  add_text(app, "--mesh", mesh, "MESH", "another mesh: \"dp=2,tp=2\"");
}

void RunSource::add_ranks(CLI::App& app) {
  add_whole(app, "--ranks", ranks, 1, "refuse a mesh that does not have this many ranks");
}

std::string RunSource::text() const {
  const char* hint = may_be_model ? ", or --model llama-3-8b --cluster h100-8" : "";
  require_config(!file.empty(), "no run file given: try 'examples/demo.toml'{}", hint);
  return read_text(file);
}

RunSpec RunSource::load() const {
  const bool lacks_file = may_lack_file && file.empty() && !overrides.empty();
  RunSpec spec = parse_run_file(lacks_file ? "" : text(), file, overrides, read_text);
  if (!mesh.empty()) spec.parallel = parse_mesh(mesh, spec.parallel);
  read_schedule_file(spec.parallel, read_text);
  if (ranks > 0) require_world(spec.parallel, ranks, spec.model.heads);
  resolve(spec);
  return spec;
}

}  // namespace tessera
